"""Speed, regret and scale of tensorbandits, beside plain NumPy and beside other libraries: ``python -m benchmarks``."""
