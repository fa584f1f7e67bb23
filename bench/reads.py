"""A start of one second, which asks for a new file every 10 ms, and then ten million reads."""

import os
import time

for number in range(100):
    os.path.exists(f"/nonexistent/{number}")
    time.sleep(0.01)
zeros, read = os.open("/dev/zero", os.O_RDONLY), os.read
for _ in range(10_000_000):
    read(zeros, 1)
