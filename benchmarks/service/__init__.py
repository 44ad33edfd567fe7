"""The decision service under load, under kills, under attack and under made-up requests."""
