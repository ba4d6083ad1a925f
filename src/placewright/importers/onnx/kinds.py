"""The kind of op for each ONNX operator; the attributes beyond the kind are in attributes.py.

Sources: the operator reference of ONNX (all versions) and docs/ContribOperators.md of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Mapping

from placewright.importers.onnx.attributes import NodeView, contraction_of

_STANDARD: Mapping[str, str] = {
    "elementwise": """
        Abs Acos Acosh Add AffineGrid And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil
        Celu Clip Cos Cosh DequantizeLinear Div DynamicQuantizeLinear Elu Equal Erf Exp Floor Gelu Greater
        GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg
        Not Or PRelu Pow QuantizeLinear Reciprocal Relu RotaryEmbedding Round Selu Shrink Sigmoid Sign Sin Sinh Softplus
        Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu Where Xor""",
    "view": "Flatten Identity Reshape Squeeze Unsqueeze",
    "matmul": "Gemm MatMul MatMulInteger QLinearMatMul",
    "conv": "CausalConvWithState Conv ConvInteger ConvTranspose DeformConv QLinearConv",
    "attention": "Attention FlexAttention",
    "rnn": "GRU LSTM RNN",
    "normalization": """
        BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization
        MeanVarianceNormalization RMSNormalization""",
    "pooling": """
        AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxRoiPool RoiAlign""",
    "softmax": "Hardmax LogSoftmax Softmax",
    "reduction": """
        ArgMax ArgMin CumProd CumSum NegativeLogLikelihoodLoss ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
        ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare SoftmaxCrossEntropyLoss""",
    "copy": """
        BitCast Cast CastLike CenterCropPad Col2Im Concat ConcatFromSequence DepthToSpace Expand Optional
        OptionalGetElement Pad ReverseSequence SequenceAt SequenceConstruct SequenceErase SequenceInsert Slice
        SpaceToDepth Split SplitToSequence Tile Transpose Trilu""",
    "gather": """
        Compress GatherElements GatherND GridSample MaxUnpool NonZero OneHot Scatter ScatterElements ScatterND
        TensorScatter""",
    "sort": "NonMaxSuppression TopK Unique",
    "fill": """
        BlackmanWindow Constant ConstantOfShape EyeLike HammingWindow HannWindow MelWeightMatrix OptionalHasElement
        Range SequenceEmpty SequenceLength Shape Size""",
    "random": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    "optimizer": "Adagrad Adam Momentum",
    "control_flow": "If Loop Scan SequenceMap",
    "other": """
        DFT Det Gradient ImageDecoder LinearAttention RegexFullMatch STFT StringConcat StringNormalizer StringSplit
        TfIdfVectorizer ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer Imputer
        LabelEncoder LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler
        TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor ZipMap""",
}
_CONTRIB: Mapping[str, str] = {
    "elementwise": """
        BiasAdd BiasDropout BiasGelu BiasSplitGelu DequantizeLinear FastGelu Gelu GemmaRotaryEmbedding QLinearAdd
        QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearWhere QuantizeLinear QuickGelu RotaryEmbedding""",
    "matmul": """
        DynamicQuantizeMatMul FusedGemm FusedMatMul MatMulBnb4 MatMulInteger16 MatMulIntegerToFloat MatMulNBits
        QGemm TransposeMatMul""",
    "conv": "FusedConv NhwcFusedConv QLinearConv",
    "attention": "Attention GroupQueryAttention MultiHeadAttention PackedMultiHeadAttention QAttention",
    "rnn": "DynamicQuantizeLSTM",
    "normalization": """
        EmbedLayerNormalization GroupNorm LayerNormalization QEmbedLayerNormalization SimplifiedLayerNormalization
        SkipGroupNorm SkipLayerNormalization SkipSimplifiedLayerNormalization""",
    "pooling": "NhwcMaxPool QLinearAveragePool QLinearGlobalAveragePool",
    "softmax": "BiasSoftmax QLinearSoftmax",
    "reduction": "QLinearReduceMean",
    "copy": "QLinearConcat",
    "embedding": "GatherBlockQuantized",
}


def _by_operator(table: Mapping[str, str]) -> dict[str, str]:
    return {operator: kind for kind, operators in table.items() for operator in operators.split()}


#: Kind by operator, for each domain. Dropout, Einsum, Gather, Resize and Upsample depend on the node.
KIND_OF_OPERATOR: Mapping[str, Mapping[str, str]] = {
    "": _by_operator(_STANDARD),
    "com.microsoft": _by_operator(_CONTRIB),
}
_SAME_AS_STANDARD = ("ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


def kind_of(node: NodeView) -> str | None:
    """The node's kind, a key of OP_KINDS; None when the operator is unknown."""
    domain = "" if node.domain in _SAME_AS_STANDARD else node.domain
    rule = _DEPENDING.get(node.op_type) if domain == "" else None
    return rule(node) if rule is not None else KIND_OF_OPERATOR.get(domain, {}).get(node.op_type)


def _dropout(node: NodeView) -> str:
    """A view at inference; a mask that is read must be made all the same. Whether it is inference may be known only at
    run time."""
    training = node.values[2] if len(node.values) > 2 else None
    if training is None and len(node.inputs) > 2 and node.inputs[2] is not None:
        return "random"
    if training is not None and training.size == 1 and bool(training.reshape(-1)[0]):
        return "random"
    return "view" if node.num_outputs_read < 2 else "elementwise"


def _gather(node: NodeView) -> str:
    """An embedding if rows are picked from a two-dimensional weight."""
    table = node.inputs[0] if node.inputs else None
    on_rows = table is not None and len(table) == 2 and node.attributes.get("axis", 0) in (0, -2)
    return "embedding" if on_rows and node.first_is_weight else "gather"


def _resize(node: NodeView) -> str:
    """A copy with the nearest element, arithmetic with interpolation."""
    return "copy" if node.attributes.get("mode", "nearest") == "nearest" else "elementwise"


def _einsum(node: NodeView) -> str:
    """A matrix product for a product over an axis that two operands share; with one operand a diagonal is something
    else."""
    try:
        found = contraction_of(node)
    except (ValueError, KeyError):
        return "other"
    if len(found.operands) > 1:
        return "matmul" if found.is_matrix_product else "elementwise"
    if found.repeats_axes:
        return "other"
    return "reduction" if set(found.operands[0]) - set(found.result) else "copy"


_DEPENDING = {"Dropout": _dropout, "Gather": _gather, "Resize": _resize, "Upsample": _resize, "Einsum": _einsum}
DEPENDING_OPERATORS = frozenset(_DEPENDING)
