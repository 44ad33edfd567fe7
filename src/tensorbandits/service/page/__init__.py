"""What the page in the browser shows: its views, and the files of the dashboard."""
