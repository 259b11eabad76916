"""What runs on a CUDA device and in front of it: memory, streams, events, launches, graphs.

`protocol.Runtime` is all that is asked of the machine. `hardware` answers with the driver, `simulator` with host
memory, so that nearly all of the code above them is tested without a GPU.
"""
