"""Programs by the kinds of kernels that they become: what goldens, planted faults and the judge of GPUs draw from."""

from collections.abc import Mapping, Sequence

_DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def operator(name: str, dtype: str = "f32") -> str:
    """A computation of two scalars."""
    return f"{name} {{ x = {dtype}[] parameter(0) y = {dtype}[] parameter(1) ROOT z = {dtype}[] {name}(x, y) }}\n"


def less(dtype: str = "f32") -> str:
    """A comparison of two scalars."""
    return (
        f"less {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) "
        "ROOT l = pred[] compare(a, b), direction=LT }\n"
    )


def entry(parameters: Sequence[str], *lines: str, before: str = "") -> str:
    """A program: the types of its parameters `p0`, `p1`, ..., and its instructions, of which the last is the root."""
    given = [f"p{k} = {shape} parameter({k})" for k, shape in enumerate(parameters)]
    *others, root = lines
    return f"{before}ENTRY e {{ {' '.join([*given, *others])} ROOT {root} }}"


def mapped(dtype: str, size: int, opcode: str) -> str:
    """An operator of one or two arrays of one dimension."""
    shape = f"{dtype}[{size}]"
    count = 1 if opcode in ("tanh", "exponential", "sine", "negate", "not") else 2
    names = ", ".join(f"p{k}" for k in range(count))
    return entry([shape] * count, f"r = {shape} {opcode}({names})")


def reduction(dtype: str, rows: int, columns: int, dimension: int, name: str = "add", start: str = "0") -> str:
    """A reduction of one dimension of a matrix."""
    left = (rows, columns)[1 - dimension]
    return entry(
        [f"{dtype}[{rows},{columns}]"],
        f"i = {dtype}[] constant({start})",
        f"r = {dtype}[{left}] reduce(p0, i), dimensions={{{dimension}}}, to_apply={name}",
        before=operator(name, dtype),
    )


def softmax(dtype: str, rows: int, columns: int) -> str:
    """exp(x - max) / sum of each row."""
    row, matrix = f"{dtype}[{rows}]", f"{dtype}[{rows},{columns}]"
    return entry(
        [matrix],
        f"low = {dtype}[] constant(-inf) zero = {dtype}[] constant(0)",
        f"m = {row} reduce(p0, low), dimensions={{1}}, to_apply=maximum",
        f"b = {matrix} broadcast(m), dimensions={{0}} d = {matrix} subtract(p0, b) p = {matrix} exponential(d)",
        f"s = {row} reduce(p, zero), dimensions={{1}}, to_apply=add c = {matrix} broadcast(s), dimensions={{0}}",
        f"q = {matrix} divide(p, c)",
        before=operator("maximum", dtype) + operator("add", dtype),
    )


def normalised(rows: int, columns: int) -> str:
    """exp(x) / sum of each row, in stages, each of which reads what other threads have written in the one before."""
    matrix = f"f32[{rows},{columns}]"
    return entry(
        [matrix],
        f"zero = f32[] constant(0) p = {matrix} exponential(p0)",
        f"s = f32[{rows}] reduce(p, zero), dimensions={{1}}, to_apply=add c = {matrix} broadcast(s), dimensions={{0}}",
        f"q = {matrix} divide(p, c)",
        before=operator("add"),
    )


def layer_norm(rows: int, columns: int) -> str:
    """(x - mean) * rsqrt(variance + epsilon) * gamma of each row."""
    row, matrix = f"f32[{rows}]", f"f32[{rows},{columns}]"
    return entry(
        [matrix, f"f32[{columns}]"],
        f"zero = f32[] constant(0) share = f32[] constant({1 / columns}) shares = {row} broadcast(share), dimensions={{}}",
        "little = f32[] constant(1e-05)",
        f"s = {row} reduce(p0, zero), dimensions={{1}}, to_apply=add m = {row} multiply(s, shares)",
        f"b = {matrix} broadcast(m), dimensions={{0}} d = {matrix} subtract(p0, b) dd = {matrix} multiply(d, d)",
        f"v = {row} reduce(dd, zero), dimensions={{1}}, to_apply=add w = {row} multiply(v, shares)",
        f"e = {row} broadcast(little), dimensions={{}} ve = {row} add(w, e) f = {row} rsqrt(ve)",
        f"g = {matrix} broadcast(f), dimensions={{0}} n = {matrix} multiply(d, g)",
        f"h = {matrix} broadcast(p1), dimensions={{1}}",
        f"r = {matrix} multiply(n, h)",
        before=operator("add"),
    )


def transpose(dtype: str, *dims: int) -> str:
    """The last two dimensions are exchanged."""
    *outer, rows, columns = dims
    rank = len(dims)
    order = [*range(rank - 2), rank - 1, rank - 2]
    turned = ",".join(map(str, [*outer, columns, rows]))
    return entry(
        [f"{dtype}[{','.join(map(str, dims))}]"],
        f"t = {dtype}[{turned}] transpose(p0), dimensions={{{','.join(map(str, order))}}}",
    )


def product(dtype: str, m: int, n: int, k: int, result: str = "", layout: str = "nn", algorithm: str = "") -> str:
    """A product of matrices; `layout` says of each operand whether it is transposed (t) or not (n)."""
    left = f"{dtype}[{m},{k}]" if layout[0] == "n" else f"{dtype}[{k},{m}]"
    right = f"{dtype}[{k},{n}]" if layout[1] == "n" else f"{dtype}[{n},{k}]"
    dims = (
        f"lhs_contracting_dims={{{int(layout[0] == 'n')}}}, rhs_contracting_dims={{{int(layout[1] == 't')}}}"
        + f", algorithm={algorithm}" * bool(algorithm)
    )
    return entry([left, right], f"d = {result or dtype}[{m},{n}] dot(p0, p1), {dims}")


def with_epilogue(dtype: str, m: int, n: int, k: int, sums: str = "f32", result: str = "", layout: str = "nn") -> str:
    """A layer: a product with a bias, silu of it, and what it is added to, in the type of the result."""
    result = result or dtype
    wide = "f64" if sums == "f64" else "f32"
    matrix = f"{wide}[{m},{n}]"
    text = product(dtype, m, n, k, sums, layout)
    head, _, _ = text.rpartition(" ROOT d = ")
    dot = text[len(head) + len(" ROOT ") : -2]
    return (
        f"{head} p2 = {wide}[{n}] parameter(2) p3 = {result}[{m},{n}] parameter(3) {dot} "
        f"w = {matrix} convert(d) b = {matrix} broadcast(p2), dimensions={{1}} s = {matrix} add(w, b) "
        f"l = {matrix} logistic(s) g = {matrix} multiply(s, l) r = {matrix} convert(p3) a = {matrix} add(g, r) "
        f"ROOT c = {result}[{m},{n}] convert(a) }}"
    )


def attention(
    dtype: str,
    heads: tuple[int, int],
    queries: int,
    keys: int,
    deep: int,
    wide: int = 0,
    mask: str = "causal",
    sums: str = "f32",
    result: str = "",
    lowest: str = "-inf",
) -> str:
    """softmax(mask(q @ k.T / 4)) @ v of each head; the mask is causal, or added, or none."""
    batch, matrix, rows = (
        f"{heads[0]},{heads[1]}",
        f"{heads[0]},{heads[1]},{queries},{keys}",
        f"{heads[0]},{heads[1]},{queries}",
    )
    scores, square, wide = f"{sums}[{matrix}]", f"[{queries},{keys}]", wide or deep
    dots = "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims="
    masked = {
        "causal": [
            f"i = s32{square} iota(), iota_dimension=0 j = s32{square} iota(), iota_dimension=1",
            f"h = pred{square} compare(i, j), direction=GE hs = pred[{matrix}] broadcast(h), dimensions={{2,3}}",
            f"low = {sums}[] constant({lowest}) lows = {scores} broadcast(low), dimensions={{}}",
            f"x = {scores} select(hs, t, lows)",
        ],
        "added": [f"mask = {scores} broadcast(p3), dimensions={{0,3}} x = {scores} add(t, mask)"],
        "none": [f"x = {scores} negate(t)"],
    }[mask]
    return entry(
        [
            f"{dtype}[{batch},{queries},{deep}]",
            f"{dtype}[{batch},{keys},{deep}]",
            f"{dtype}[{batch},{keys},{wide}]",
            *[f"{sums}[{heads[0]},{keys}]"] * (mask == "added"),
        ],
        f"s = {scores} dot(p0, p1), {dots}{{3}} q = {sums}[] constant(0.25) qs = {scores} broadcast(q), dimensions={{}}",
        f"t = {scores} multiply(s, qs)",
        *masked,
        f"least = {sums}[] constant(-inf) m = {sums}[{rows}] reduce(x, least), dimensions={{3}}, to_apply=maximum",
        f"ms = {scores} broadcast(m), dimensions={{0,1,2}} c = {scores} subtract(x, ms) e = {scores} exponential(c)",
        f"f = f32[{matrix}] convert(e) zero = f32[] constant(0)",
        f"l = f32[{rows}] reduce(f, zero), dimensions={{3}}, to_apply=add",
        f"ls = f32[{matrix}] broadcast(l), dimensions={{0,1,2}} w = f32[{matrix}] divide(f, ls)",
        f"n = {dtype}[{matrix}] convert(w)",
        f"o = {result or dtype}[{batch},{queries},{wide}] dot(n, p2), {dots}{{2}}",
        before=operator("maximum", sums) + operator("add"),
    )


def batched_product(dtype: str, batch: int, m: int, n: int, k: int) -> str:
    """As attention has them: q @ k.T of each head."""
    return entry(
        [f"{dtype}[{batch},{m},{k}]", f"{dtype}[{batch},{n},{k}]"],
        f"d = f32[{batch},{m},{n}] dot(p0, p1), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={2}",
    )


def convolution(dtype: str, side: int, features: int, outputs: int, stride: int = 1) -> str:
    """3 x 3 taps of pictures whose channels are neighbours."""
    out = -(-side // stride)
    return entry(
        [f"{dtype}[2,{side},{side},{features}]", f"{dtype}[3,3,{features},{outputs}]"],
        f"c = {dtype}[2,{out},{out},{outputs}] convolution(p0, p1), "
        f"window={{size=3x3 stride={stride}x{stride} pad=1_1x1_1}}, dim_labels=b01f_01io->b01f",
    )


def convolution_gradient(dtype: str, side: int, features: int, outputs: int, stride: int = 1) -> str:
    """What the gradient of `convolution` by its pictures is: taps are turned, and what it has is spread by a stride."""
    out = -(-side // stride)
    low, high = 1, side + 1 - (out - 1) * stride - 1
    window = f"size=3x3 pad={low}_{high}x{low}_{high} lhs_dilate={stride}x{stride} rhs_reversal=1x1"
    return entry(
        [f"{dtype}[2,{out},{out},{outputs}]", f"{dtype}[3,3,{features},{outputs}]"],
        f"c = {dtype}[2,{side},{side},{features}] convolution(p0, p1), window={{{window}}}, dim_labels=b01f_01oi->b01f",
    )


def top_k(dtype: str, rows: int, columns: int, k: int, is_largest: bool = True) -> str:
    """The first k of each row in order, and where they are."""
    return entry(
        [f"{dtype}[{rows},{columns}]"],
        f"t = ({dtype}[{rows},{k}], s32[{rows},{k}]) topk(p0), k={k}, largest={str(is_largest).lower()}",
    )


def cumulative(dtype: str, rows: int, columns: int, axis: int, name: str = "add", start: str = "0") -> str:
    """Sums, or what `name` is, of all elements up to each."""
    matrix, sizes, pads = f"{dtype}[{rows},{columns}]", [1, 1], ["0_0", "0_0"]
    sizes[axis] = (rows, columns)[axis]
    pads[axis] = f"{sizes[axis] - 1}_0"
    return entry(
        [matrix],
        f"i = {dtype}[] constant({start})",
        f"r = {matrix} reduce-window(p0, i), window={{size={'x'.join(map(str, sizes))} pad={'x'.join(pads)}}}, "
        f"to_apply={name}",
        before=operator(name, dtype),
    )


def sort(dtype: str, rows: int, columns: int) -> str:
    """Each row in ascending order."""
    matrix = f"{dtype}[{rows},{columns}]"
    return entry(
        [matrix], f"s = {matrix} sort(p0), dimensions={{1}}, is_stable=true, to_apply=less", before=less(dtype)
    )


def scatter(dtype: str, rows: int, columns: int, updates: int, name: str = "add", unique: bool = False) -> str:
    """Rows of updates, put together with rows that indices name."""
    return entry(
        [f"{dtype}[{rows},{columns}]", f"s32[{updates},1]", f"{dtype}[{updates},{columns}]"],
        f"s = {dtype}[{rows},{columns}] scatter(p0, p1, p2), update_window_dims={{1}}, inserted_window_dims={{0}}, "
        f"scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={name}" + ", unique_indices=true" * unique,
        before=operator(name, dtype),
    )


def gather(dtype: str, rows: int, columns: int, count: int) -> str:
    """Rows that indices name."""
    return entry(
        [f"{dtype}[{rows},{columns}]", f"s32[{count}]"],
        f"g = {dtype}[{count},{columns}] gather(p0, p1), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
        f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{columns}}}",
    )


def argmax(rows: int, columns: int) -> str:
    """The greatest element of each row, and where it is."""
    return entry(
        [f"f32[{rows},{columns}]"],
        f"n = s32[{rows},{columns}] iota(), iota_dimension=1 l = f32[] constant(-inf) z = s32[] constant(0)",
        f"r = (f32[{rows}], s32[{rows}]) reduce(p0, n, l, z), dimensions={{1}}, to_apply=best",
        before="best { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3) "
        "g = pred[] compare(a, b), direction=GE v = f32[] maximum(a, b) k = s32[] select(g, i, j) "
        "ROOT t = (f32[], s32[]) tuple(v, k) }\n",
    )


def pooled(side: int, channels: int) -> str:
    """The greatest of each 2 x 2 elements of a picture."""
    return entry(
        [f"f32[2,{side},{side},{channels}]"],
        "l = f32[] constant(-inf)",
        f"w = f32[2,{side // 2},{side // 2},{channels}] reduce-window(p0, l), "
        "window={size=1x2x2x1 stride=1x2x2x1}, to_apply=maximum",
        before=operator("maximum"),
    )


def transform(kind: str, dims: Sequence[int], rank: int = 1, *, is_wide: bool = False) -> str:
    """A Fourier transform of the last `rank` dimensions; `dims` are those of the longer of operand and result."""
    real, number = ("f64", "c128") if is_wide else ("f32", "c64")
    whole, half = ",".join(map(str, dims)), ",".join(map(str, [*dims[:-1], dims[-1] // 2 + 1]))
    source = {"RFFT": f"{real}[{whole}]", "IRFFT": f"{number}[{half}]"}.get(kind, f"{number}[{whole}]")
    target = {"RFFT": f"{number}[{half}]", "IRFFT": f"{real}[{whole}]"}.get(kind, f"{number}[{whole}]")
    lengths = ",".join(map(str, dims[-rank:]))
    return entry([source], f"r = {target} fft(p0), fft_type={kind}, fft_length={{{lengths}}}")


def triangular_solve(
    dtype: str,
    dims: Sequence[int],
    *,
    left: bool = True,
    lower: bool = True,
    transpose: str = "NO_TRANSPOSE",
    unit: bool = False,
) -> str:
    """A triangular system; `dims` are the right side's."""
    n, right = dims[-2 if left else -1], ",".join(map(str, dims))
    square = ",".join(map(str, [*dims[:-2], n, n]))
    flags = [f"{name}={str(value).lower()}" for name, value in
             (("left_side", left), ("lower", lower), ("unit_diagonal", unit))]  # fmt: skip
    return entry(
        [f"{dtype}[{square}]", f"{dtype}[{right}]"],
        f"x = {dtype}[{right}] triangular-solve(p0, p1), {', '.join(flags)}, transpose_a={transpose}",
    )


def cholesky(dtype: str, dims: Sequence[int], *, lower: bool = True) -> str:
    """A Cholesky factor."""
    shape = f"{dtype}[{','.join(map(str, dims))}]"
    return entry([shape], f"c = {shape} cholesky(p0), lower={str(lower).lower()}")


def lapack_call(name: str, dtype: str, operands: Sequence[str], results: Sequence[str], attributes: str = "") -> str:
    """A call of a routine of LAPACK's as JAX makes it: columns lie one after another."""
    letter = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}[dtype]

    def shape(text: str) -> str:
        rank = text.count(",") + 1 if "[]" not in text else 0
        order = [*range(rank)][::-1]
        if rank == 3:  # matrices; vectors lie in order
            order[:2] = order[1::-1]
        return f"{text}{{{','.join(map(str, order))}}}"

    given = ", ".join(f"p{k}" for k in range(len(operands)))
    made = f"({', '.join(map(shape, results))})" if len(results) > 1 else shape(results[0])
    return entry(
        operands,
        f'r = {made} custom-call({given}), custom_call_target="lapack_{letter}{name}_ffi", '
        f"operand_layout_constraints={{{', '.join(map(shape, operands))}}}, api_version=API_VERSION_TYPED_FFI, "
        f"backend_config={{{attributes}}}",
    )


TF32 = "dot_tf32_tf32_f32"
MAPS: Mapping[str, str] = {
    "f32 tanh": mapped("f32", 8192, "tanh"),
    "f32 add": mapped("f32", 1 << 20, "add"),
    "f32 add of a few": mapped("f32", 300, "add"),
    "f64 multiply": mapped("f64", 8192, "multiply"),
    "bf16 multiply": mapped("bf16", 16384, "multiply"),
    "f16 add": mapped("f16", 16384, "add"),
    "s8 add": mapped("s8", 32768, "add"),
    "u64 xor": mapped("u64", 8192, "xor"),
    "c64 multiply": mapped("c64", 8192, "multiply"),
    "f8 add": mapped("f8e4m3fn", 32768, "add"),
    "convert": entry(["bf16[16384]"], "r = f32[16384] convert(p0)"),
    "axpy": entry(
        ["f32[]", "f32[65536]", "f32[65536]"],
        "a = f32[65536] broadcast(p0), dimensions={} m = f32[65536] multiply(a, p1)",
        "r = f32[65536] add(m, p2)",
    ),
    "bias": entry(
        ["f32[512,256]", "f32[256]"],
        "b = f32[512,256] broadcast(p1), dimensions={1} s = f32[512,256] add(p0, b)",
        "r = f32[512,256] tanh(s)",
    ),
    "pad": entry(["f32[200,200]", "f32[]"], "r = f32[203,203] pad(p0, p1), padding=1_2x2_1"),
    "concatenate": entry(["f32[64,100]", "f32[64,28]"], "r = f32[64,128] concatenate(p0, p1), dimensions={1}"),
    "gather": gather("f32", 1000, 128, 256),
    "dynamic slice": entry(
        ["f32[1000,128]", "s32[]"],
        "z = s32[] constant(0)",
        "r = f32[256,128] dynamic-slice(p0, p1, z), dynamic_slice_sizes={256,128}",
    ),
    "iota": entry(["f32[]"], "n = f32[8192] iota(), iota_dimension=0 b = f32[8192] broadcast(p0), dimensions={}",
                  "r = f32[8192] multiply(n, b)"),
}  # fmt: skip
REDUCTIONS: Mapping[str, str] = {
    "lanes": reduction("f32", 700, 20, 1),
    "warps": reduction("f32", 64, 300, 1),
    "blocks": reduction("f32", 200, 5000, 1),
    "parts": reduction("f32", 3, 400000, 1),
    "columns": reduction("f32", 300, 4096, 0),
    "parts of columns": reduction("f32", 30000, 40, 0),
    "maximum": reduction("f32", 200, 5000, 1, "maximum", "-inf"),
    "f64 rows": reduction("f64", 200, 5000, 1),
    "bf16 rows": reduction("bf16", 200, 5000, 1),
    "bf16 columns": reduction("bf16", 300, 4096, 0),
    "s32 minimum": reduction("s32", 200, 5000, 1, "minimum", "2147483647"),
    "pred and": reduction("pred", 200, 4096, 1, "and", "true"),
    "argmax": argmax(128, 4096),
}
ROWS: Mapping[str, str] = {
    "softmax": softmax("f32", 64, 1000),
    "short softmax": softmax("f32", 64, 100),
    "long softmax": softmax("f32", 64, 8192),
    "bf16 softmax": softmax("bf16", 64, 1024),
    "layer norm": layer_norm(256, 768),
    "few long rows": softmax("f32", 4, 50000),
}
TRANSPOSES: Mapping[str, str] = {
    "f32 transpose": transpose("f32", 640, 320),
    "bf16 transpose": transpose("bf16", 640, 320),
    "f64 transpose": transpose("f64", 256, 128),
    "s8 transpose": transpose("s8", 512, 512),
    "batched transpose": transpose("f32", 12, 64, 96),
}
PRODUCTS: Mapping[str, str] = {
    "f32 product": product("f32", 128, 128, 256),
    "large f32 product": product("f32", 1024, 1024, 256),
    "f64 product": product("f64", 128, 128, 128),
    "s32 product": product("s32", 128, 128, 128),
    "c64 product": product("c64", 64, 64, 64),
    "bf16 product": product("bf16", 256, 256, 256, "f32"),
    "bf16 product, nt": product("bf16", 256, 256, 256, "f32", "nt"),
    "bf16 product, tn": product("bf16", 256, 256, 256, "f32", "tn"),
    "large bf16 product": product("bf16", 2048, 2048, 512),
    "f16 product": product("f16", 256, 256, 256),
    "tf32 product": product("f32", 256, 256, 256, layout="nn", algorithm=TF32),
    "tf32 product, nt": product("f32", 256, 256, 256, layout="nt", algorithm=TF32),
    "attention scores": batched_product("bf16", 12, 256, 256, 64),
    "large layer": with_epilogue("bf16", 2048, 2048, 512),
    "f32 layer": with_epilogue("f32", 1024, 1024, 256),
    "s8 product": product("s8", 256, 256, 256, "s32", "nt"),
    "u8 product": product("u8", 256, 256, 256, "s32", "nt"),
    "large s8 product": product("s8", 2048, 2048, 512, "s32", "nt"),
    "long sums": product("bf16", 64, 64, 8192, "f32", "tn"),
    "long f32 sums": product("f32", 64, 64, 8192, "f32", "tn"),
    "one row": product("f32", 1, 512, 1024),
    "one bf16 row": product("bf16", 1, 512, 1024),
    "one bf16 column": product("bf16", 512, 1, 2048),
    "convolution": convolution("f32", 28, 32, 64),
    "bf16 convolution": convolution("bf16", 28, 32, 64),
    "bf16 convolution in steps": convolution("bf16", 28, 32, 64, stride=2),
    "gradient of a convolution": convolution_gradient("f32", 28, 64, 64),
    "gradient of a bf16 convolution": convolution_gradient("bf16", 28, 32, 64),
    "gradient of a bf16 convolution in steps": convolution_gradient("bf16", 28, 32, 64, stride=2),
}
LAYERS: Mapping[str, str] = {
    "layer": with_epilogue("bf16", 256, 256, 256),
    "layer of long sums": with_epilogue("bf16", 64, 64, 8192, layout="tn"),
    "attention": attention("bf16", (1, 2), 192, 192, 64, result="f32"),
    "attention as JAX masks it": attention("f16", (1, 2), 192, 192, 128, lowest="-2.38e38", result="f32"),
    "deep attention": attention("bf16", (2, 1), 128, 160, 128, mask="added", result="f32"),
    "odd attention": attention("f16", (1, 2), 100, 101, 72, 40, result="f32"),
}
OTHERS: Mapping[str, str] = {
    "pooling": pooled(28, 32),
    "cumulative sum": cumulative("f32", 8, 5000, 1),
    "cumulative sum of columns": cumulative("f32", 500, 512, 0),
    "cumulative maximum": cumulative("f32", 8, 5000, 1, "maximum", "-inf"),
    "cumulative sum of few columns": cumulative("f32", 4000, 64, 0),
    "sort": sort("f32", 4, 1000),
    "s32 sort": sort("s32", 1, 5000),
    "scatter": scatter("f32", 1000, 64, 512),
    "bf16 scatter": scatter("bf16", 1000, 64, 512),
    "first of rows": top_k("f32", 16, 1000, 8),
    "unique scatter": scatter("bf16", 1000, 64, 512, unique=True),
    "transform": transform("FFT", (64, 1024)),
    "f64 transform": transform("FFT", (64, 1024), is_wide=True),
    "transform of real lines": transform("RFFT", (8, 4096)),
    "transform of columns": transform("IFFT", (512, 512), 2),
    "transform of a long line": transform("FFT", (1, 1 << 18)),
    "transform of a prime": transform("FFT", (64, 1009)),
    "triangular system": triangular_solve("f32", (256, 128)),
    "c64 triangular system": triangular_solve("c64", (4, 128, 128), left=False, transpose="ADJOINT"),
    "factor": cholesky("f32", (256, 256)),
    "f64 factor": cholesky("f64", (8, 128, 128), lower=False),
}
PROGRAMS: Mapping[str, str] = {**MAPS, **REDUCTIONS, **ROWS, **TRANSPOSES, **PRODUCTS, **LAYERS, **OTHERS}
HUGE: Mapping[str, str] = {
    "huge layer": with_epilogue("bf16", 8192, 8192, 8192),
    "huge bf16 product": product("bf16", 8192, 8192, 8192),
    "huge f16 product, tn": product("f16", 4096, 4096, 4096, layout="tn"),
    "large tf32 product, nt": product("f32", 1024, 1024, 1024, layout="nt", algorithm=TF32),
}
"""What no emulator should run."""
