"""The memory oracle: the real model, PEFT and training step run on meta tensors, byte by byte.

`store.traced` is the entrance; it imports no torch. The step itself runs in a process of its own (`worker`),
whose modules (`tracker`, `cuda`, `quantized`, `model`, `step`, `evaluation`) do.
"""
