"""Whole models, inference: torch.compile(backend="xloom") against what people deploy on CPUs.

zoo.py            the models, by name: random weights, inputs of a batch
networks.py       those that no package of ours has: MobileNet-v3, a U-Net
sides.py          what runs a model: xloom, inductor, ONNX Runtime, OpenVINO
measurement.py    one model by several sides: values compared, times alternated
cli.py            the command line, and the table
"""
