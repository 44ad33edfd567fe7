"""Reports: evidence and verdicts, tables, HTML and Markdown pages."""
