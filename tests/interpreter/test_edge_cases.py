"""Corners of operators that random programs have found."""

import numpy as np

import xloom as xl


def run(body, *arguments, called=""):
    return xl.evaluate(xl.parse(f"{called} ENTRY e {{ {body} }}"), *arguments)


def test_gather_of_one_element():
    y = run(
        "x = f32[3] parameter(0) i = s32[1] parameter(1) ROOT r = f32[] gather(x, i), offset_dims={}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0, slice_sizes={1}",
        np.arange(3, dtype=np.float32),
        np.array([2], np.int32),
    )
    assert y.shape == () and y == 2


def test_update_of_a_scalar():
    y = run(
        "x = f32[] parameter(0) y = f32[] parameter(1) d = f32[] dynamic-slice(x), dynamic_slice_sizes={} "
        "ROOT r = f32[] dynamic-update-slice(d, y)",
        np.float32(4),
        np.float32(3),
    )
    assert y.shape == () and y == 3


def test_scatter_into_a_transposed_array():
    y = run(
        "x = f32[2,3] parameter(0) t = f32[3,2] transpose(x), dimensions={1,0} i = s32[1,1] parameter(1) "
        "u = f32[1,2] parameter(2) ROOT r = f32[3,2] scatter(t, i, u), update_window_dims={1}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=new",
        np.zeros((2, 3), np.float32),
        np.array([[1]], np.int32),
        np.ones((1, 2), np.float32),
        called="new { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }",
    )
    assert y.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_complex_logistic_vanishes_where_the_exponential_overflows():
    z = np.array([complex(-1e300, 0.8)])
    assert np.array_equal(run("x = c128[1] parameter(0) ROOT r = c128[1] logistic(x)", z), np.zeros(1))


def test_complex_log_plus_one_near_minus_one():
    z = np.array([complex(-1, 1e-38), complex(-1, 0)], np.complex64)
    y = run("x = c64[2] parameter(0) ROOT r = c64[2] log-plus-one(x)", z)
    assert y[0].real == np.float32(np.log(np.float64(z[0].imag))) and y[1].real == -np.inf


def test_epsilon_of_batch_norm_is_an_f32():
    one = np.ones(1)
    y = run(
        "x = f64[1,1] parameter(0) s = f64[1] parameter(1) "
        "ROOT r = f64[1,1] batch-norm-inference(x, s, s, s, s), epsilon=0.01, feature_index=1",
        np.full((1, 1), 3.0),
        one,
    )
    assert y[0, 0] == 2 / np.sqrt(1 + np.float64(np.float32(0.01))) + 1


def test_complex_rsqrt_of_an_infinity_is_zero():
    z = np.array([complex(-np.inf, 0.5), complex(1, np.inf)], np.complex64)
    assert np.array_equal(run("x = c64[2] parameter(0) ROOT r = c64[2] rsqrt(x)", z), np.zeros(2))


def test_scatter_far_out_of_bounds():
    module = xl.parse("""HloModule m
    set { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
    ENTRY e { x = f32[4] parameter(0) i = s64[2,1] parameter(1) u = f32[2,2] parameter(2)
      ROOT s = f32[4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set }""")
    places = np.array([[2**63 - 1], [1]], np.int64)
    got = xl.evaluate(module, np.zeros(4, np.float32), places, np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(got, [0, 1, 1, 0])


def test_quotient_of_the_largest_complex_numbers():
    z = np.array([complex(1.7e308, 1.7e308), complex(3, 4)])
    assert np.allclose(run("x = c128[2] parameter(0) ROOT r = c128[2] divide(x, x)", z), 1)


def test_quotient_of_the_smallest_complex_numbers():
    z = np.array([complex(5e-320, 0), complex(0, 5e-320), complex(5e-320, -5e-320), complex(1e-310, 5e-320)])
    y = run("x = c128[4] parameter(0) ROOT r = c128[4] divide(x, x)", z)
    np.testing.assert_allclose(y, 1, rtol=1e-15)
