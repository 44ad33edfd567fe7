"""What the library costs and whether its answers hold: time, memory, intervals, late rewards, logs, changing worlds."""
