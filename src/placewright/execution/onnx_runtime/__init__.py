"""Plans on ONNX Runtime: a session for each part of a plan, on threads pinned to the cores of its device."""
