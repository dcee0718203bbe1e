"""Key maps: every step of the notation both ways, every problem at once, and real Llama files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from treaty.runtime import KeyMapError
from treaty.runtime._keymaps.apply import to_fields, to_stored
from treaty.runtime._lazy import LazyArray, host, in_parts
from treaty.runtime._trees import flatten
from treaty.runtime.formats import safetensors as format
from treaty.schema import SchemaError
from treaty.schema.keymap import KeyMap, Rule
from treaty.schema.library.llama import LLAMA
from treaty.schema.library.transformer import Params


def numbers(*shape: int, start: int = 0) -> Any:
    return np.arange(start, start + np.prod(shape), dtype=np.float32).reshape(shape)


def fields_of(rules: list[Rule], tensors: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """The fields by dotted path, after a check that the way back leads to the same tensors."""
    keymap = KeyMap(rules, **options)
    tree = to_fields(keymap, tensors)
    back = to_stored(keymap, tree)
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(np.asarray(back[name]), tensor, err_msg=name)
    return {".".join(path): np.asarray(leaf) for path, leaf in flatten(tree)}


def test_names_with_placeholders() -> None:
    fields = fields_of(
        [Rule("model.layers.{i}.{part}.weight", "$.blocks[{i}].{part}.kernel"), Rule("note", "note['a.b']")],
        {"model.layers.0.up.weight": numbers(2), "model.layers.10.down.weight": numbers(3), "note": numbers(1)},
    )

    assert list(fields) == ["blocks.0.up.kernel", "blocks.10.down.kernel", "note.a.b"]


def test_transpose_is_a_view() -> None:
    stored = numbers(2, 3, 4)

    tree = to_fields(KeyMap([Rule("w", "kernel", "out in pos -> pos in out")]), {"w": stored})

    np.testing.assert_array_equal(tree["kernel"], stored.transpose(2, 1, 0))
    assert np.shares_memory(tree["kernel"], stored)


def test_heads() -> None:
    rule = Rule("q", "query", "(heads d_head) d_model -> d_model heads d_head")

    fields = fields_of([rule], {"q": numbers(6, 5)}, sizes={"d_head": 2})

    np.testing.assert_array_equal(fields["query"], numbers(6, 5).T.reshape(5, 3, 2))


def test_parts_of_uneven_size() -> None:
    rule = Rule(
        "h.{i}.qkv",
        ("h[{i}].q", "h[{i}].k", "h[{i}].v"),
        ("m (n d) -> m n d", "m (kv d) -> m kv d", "m (kv d) -> m kv d"),
        axis=1,
    )

    fields = fields_of([rule], {"h.0.qkv": numbers(2, 16), "h.1.qkv": numbers(2, 16)}, sizes={"n": 4, "kv": 2, "d": 2})

    assert fields["h.0.q"].shape == (2, 4, 2)
    np.testing.assert_array_equal(fields["h.1.v"], numbers(2, 16)[:, 12:].reshape(2, 2, 2))


def test_even_parts_need_no_sizes() -> None:
    fields = fields_of([Rule("qkv", ("q", "k", "v"), axis=0)], {"qkv": numbers(6, 2)})

    np.testing.assert_array_equal(fields["k"], numbers(6, 2)[2:4])


def test_one_field_of_several_tensors() -> None:
    rule = Rule(("gate", "up"), "mlp", "d_ff d_model -> d_model d_ff", axis=-1)

    fields = fields_of([rule], {"gate": numbers(3, 2), "up": numbers(3, 2, start=100)})

    np.testing.assert_array_equal(fields["mlp"][:, 3:], numbers(3, 2, start=100).T)


def test_layers_are_stacked_along_a_first_axis() -> None:
    tensors = {f"h.{i}.w": numbers(2, 3, start=10 * i) for i in range(12)}

    fields = fields_of([Rule("h.{i}.w", "blocks.w")], tensors)

    np.testing.assert_array_equal(fields["blocks.w"], np.stack(list(tensors.values())))


def test_layers_are_stacked_along_any_axis() -> None:
    tensors = {f"h.{i}.w": numbers(2, 3, start=10 * i) for i in range(4)}

    fields = fields_of([Rule("h.{i}.w", "w", "out in -> in i out")], tensors)

    np.testing.assert_array_equal(fields["w"], np.stack(list(tensors.values())).transpose(2, 0, 1))


def test_a_stacked_tensor_is_taken_apart() -> None:
    fields = fields_of([Rule("experts.w", "experts[{e}].w", "e ... -> ...")], {"experts.w": numbers(3, 2, 2)})

    np.testing.assert_array_equal(fields["experts.2.w"], numbers(3, 2, 2)[2])


def test_what_is_no_array_goes_along() -> None:
    assert to_fields(KeyMap([Rule("a", "b.c")]), {"a": "text"}) == {"b": {"c": "text"}}


def test_names_are_left_out_only_where_that_is_said() -> None:
    keymap = KeyMap([Rule("w", "params.w")], ignore_stored=["old.{i}.freq", "tmp.**"], ignore_fields=["opt.**", "step"])

    assert to_fields(keymap, {"w": 1, "old.3.freq": 2, "tmp.a.b": 3}) == {"params": {"w": 1}}
    assert to_stored(keymap, {"params": {"w": 1}, "opt": {"mu": {"w": 2}}, "step": 3}) == {"w": 1}
    with pytest.raises(KeyMapError, match=r"expected one rule, got none for 'tmp'"):
        to_fields(keymap, {"w": 1, "tmp": 3})


def test_every_problem_is_told() -> None:
    keymap = KeyMap(
        [Rule("a.{i}", "x[{i}]"), Rule("a.{name}", "y.{name}"), Rule("b", "z", "p q -> q p"), Rule("c", "v")],
        ties={"d": "b"},
    )

    with pytest.raises(KeyMapError) as caught:
        to_fields(keymap, {"a.1": numbers(1), "b": numbers(2), "d": numbers(3), "e": numbers(1)})

    assert caught.value.problems == (
        "expected a copy of 'b', got something else at 'd'; it needs a field of its own",
        "expected one rule, got a.{i} <-> x[{i}] and a.{name} <-> y.{name} for 'a.1'",
        "expected one rule, got none for 'e'",
        "expected something for each rule, got nothing for 'a.{name}'",
        "expected axes 'p q', got float32[2] at 'b'",
        "expected something for each rule, got nothing for 'c'",
    )


def test_two_tensors_for_one_field() -> None:
    keymap = KeyMap([Rule("a", "x[0]"), Rule("b.{i}", "x[{i}]")])

    with pytest.raises(KeyMapError, match=r"expected one source, got 'a' and 'b\.0' for \$\.x\[0\]"):
        to_fields(keymap, {"a": 1, "b.0": 2})


def test_a_leaf_where_another_has_its_node() -> None:
    with pytest.raises(KeyMapError, match=r"expected one value a place, got two .* \$\.x\.y"):
        to_fields(KeyMap([Rule("a", "x"), Rule("b", "x.y")]), {"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("rule", "tensors", "sizes", "message"),
    [
        (Rule("h.{i}", "w"), {"h.0": 1, "h.2": 3}, {}, "expected an array, got int at 'h.0'"),
        (Rule("h.{i}", "w"), {"h.0": (2,), "h.2": (2,)}, {}, "expected all from 0 on to stack, got none with i=1 at 'h.0'"),
        (Rule("h.{i}", "w"), {"h.0": (2,), "h.1": (3,)}, {}, "expected float32[2] to stack, got float32[3] at 'h.1'"),
        (Rule("a", ("x", "y"), axis=0), {"a": (3,)}, {}, "expected an axis 0 that parts of ?, ? fill, got float32[3] at 'a'"),
        (Rule("a", ("x", "y"), axis=1), {"a": (3,)}, {}, "expected an axis 1 to cut, got float32[3] at 'a'"),
        (Rule("a", "x", "(h d) -> h d"), {"a": (6,)}, {}, "expected sizes for all but one of h, d, got none for h, d; give them at 'a'"),
        (Rule("a", "x", "(h d) -> h d"), {"a": (6,)}, {"d": 4}, "expected axes '(h d)' with d=4, got float32[6] at 'a'"),
        (Rule("a", "x", "1 d -> d"), {"a": (2, 3)}, {}, "expected axes '1 d', got float32[2, 3] at 'a'"),
        (Rule(("a", "b"), "x", axis=0), {"a": (2, 3), "b": (2, 4)}, {}, "expected parts that fit along axis 0, got float32[2, 3], float32[2, 4] at $.x"),
        (Rule(("a", "b"), "x", axis=0), {"a": (2, 3)}, {}, "expected something for each rule, got nothing for 'b'"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit(rule: Rule, tensors: dict[str, Any], sizes: dict[str, int], message: str) -> None:
    arrays = {name: numbers(*one) if isinstance(one, tuple) else one for name, one in tensors.items()}

    with pytest.raises(KeyMapError) as caught:
        to_fields(KeyMap([rule]), arrays, sizes)

    assert message in caught.value.problems


def test_the_other_direction_is_guessed_at_in_words_only() -> None:
    with pytest.raises(KeyMapError, match="nothing fits: the names may be those of the map's other side"):
        to_stored(LLAMA, {"model": {"norm": {"weight": numbers(2)}}})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "x", "p q -> q"), "expected the same axes on both sides, or placeholders on the other, for p, got a <-> x"),
        (("a", "x", "p q"), "expected a layout such as 'd_out d_in -> d_in d_out', got 'p q'"),
        (("a", "x", "p p -> p"), "expected each name once a side, got p twice in 'p p -> p'"),
        (("a", "x", "(p q -> p q"), "expected a closing bracket, got '(p q -> p q'"),
        (("a", "x", "p ) q -> p q"), "expected names, 1, ... and groups in brackets, got 'p ) q -> p q'"),
        (("a", "x..y"), "expected a path such as blocks[{i}].up.kernel, got 'x..y'"),
        (("a.{i}{j}", "x[{i}][{j}]"), "expected at most one placeholder between dots, got 'a.{i}{j}'"),
        (("a.{i}", "x", "p -> p"), "expected the same axes on both sides, or placeholders on the other, for i, got a.{i} <-> x"),
        (("a.{i}", "x[{i}]", "i p -> i p"), "expected names for axes that are not placeholders on both sides, got a.{i} <-> x[{i}]"),
        ((("a", "b"), ("x", "y")), "expected one stored name or one field, got a + b <-> x + y"),
        (("a", ("x", "y")), "expected an axis where, and only where, there are several names on one side, got a <-> x + y"),
        (("a", ("x", "y"), ("p -> p",), 0), "expected a layout for each of 2, got a <-> x + y"),
    ],
)  # fmt: skip
def test_rules_that_make_no_sense_are_refused_where_they_are_written(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Rule(*arguments)

    assert str(caught.value) == message


def test_two_rules_for_one_name_are_refused() -> None:
    with pytest.raises(SchemaError) as caught:
        KeyMap([Rule("a", "x"), Rule("a", "x")], sizes={"d": 0})

    assert caught.value.problems == (
        "expected one rule for each stored name, got 2 for 'a'",
        "expected one rule for each field, got 2 for 'x'",
        "expected no sizes, as no layout names an axis, got 'd' in sizes",
        "expected a size of 1 or more, got 0 at d",
    )


def test_maps_are_data() -> None:
    text = """
        ignore_stored = ["old.**"]
        sizes = {d = 4}

        [[rules]]
        stored = "h.{i}.qkv"
        field = ["h[{i}].q", "h[{i}].k"]
        layout = "m (n d) -> m n d"
        axis = 1
    """
    same = KeyMap(
        [Rule("h.{i}.qkv", ("h[{i}].q", "h[{i}].k"), "m (n d) -> m n d", axis=1)],
        ignore_stored=["old.**"],
        sizes={"d": 4},
    )

    assert KeyMap.from_toml(text) == same
    assert KeyMap.from_json(same.to_json()) == same
    assert KeyMap.from_json(LLAMA.to_json()) == LLAMA


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        ([], ["expected an object with a list of rules, got something else"]),
        (
            {"rules": [{"stored": "a"}, {"stored": 1, "field": "x", "axes": 2}, {"stored": "a", "field": ".."}], "map": 1},
            [
                "expected rules, ties, ignore_stored, ignore_fields, sizes, got 'map' at the key map",
                "expected stored and field, got {'stored': 'a'} at rules[0]",
                "expected stored, field, layout, axis, got 'axes' at rules[1]",
                "expected text, or a list of it, got 1 as stored at rules[1]",
                "expected a path such as blocks[{i}].up.kernel, got '..'",
            ],
        ),
        ({"rules": [], "ties": ["a"]}, ["expected names by name, got ['a'] as ties at the key map"]),
    ],
)  # fmt: skip
def test_all_that_is_wrong_with_a_map_is_told(data: Any, problems: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        KeyMap.from_data(data)

    assert list(caught.value.problems) == problems


def test_text_that_is_no_map() -> None:
    with pytest.raises(SchemaError, match="expected a key map in JSON"):
        KeyMap.from_json("{")
    with pytest.raises(SchemaError, match="expected a key map in TOML"):
        KeyMap.from_toml("= 1")


NAMES = ("a", "b", "c", "d")


@st.composite
def sides(draw: st.DrawFn, names: list[str]) -> str:
    """The names in any order, some of them in groups, with a 1 here and there."""
    order = draw(st.permutations(names))
    axes: list[str] = []
    while order:
        count = draw(st.integers(1, len(order)))
        axes.append(order[0] if count == 1 else f"({' '.join(order[:count])})")
        order = order[count:]
        axes += draw(st.sampled_from([[], [], ["1"]]))
    return " ".join(axes)


@st.composite
def rules(draw: st.DrawFn, number: int) -> tuple[Rule, dict[str, tuple[int, ...]]]:
    """A rule whose names begin with `number`, and the shapes of tensors that fit it, all with sizes 2, 3, 4, 5."""
    names = list(NAMES[: draw(st.integers(1, 4))])
    sizes = {name: 2 + index for index, name in enumerate(NAMES)}
    layers, kind = draw(st.integers(1, 3)), draw(st.sampled_from(["each", "stack", "spread", "cut", "join"]))
    left, right = draw(sides(names)), draw(sides(names))
    shape = sizes | {"1": 1, "i": layers}

    def of(side: str) -> tuple[int, ...]:
        groups = side.replace("(", "( ").replace(")", " )").split()
        found: list[int] = []
        inside = False
        for token in groups:
            if token == "(":
                inside = True
                found.append(1)
            elif token == ")":
                inside = False
            elif inside:
                found[-1] *= shape[token]
            else:
                found.append(shape[token])
        return tuple(found)

    one, many = f"{number}.w", f"{number}.{{i}}.w"
    if kind == "each":
        rule = Rule(many, f"{number}[{{i}}].w" if number % 2 else f"x{number}.{{i}}", f"{left} -> {right}")
        return rule, {f"{number}.{i}.w": of(left) for i in range(layers)}
    if kind == "stack":
        axes = right.split(" ") if "(" not in right else [right]
        axes.insert(draw(st.integers(0, len(axes))), "i")
        return Rule(many, f"x{number}", f"{left} -> {' '.join(axes)}"), {
            f"{number}.{i}.w": of(left) for i in range(layers)
        }
    if kind == "spread":
        return Rule(one, f"x{number}[{{i}}]", f"i {left} -> {right}"), {one: (layers, *of(left))}
    parts = tuple(f"{number}p{index}" for index in range(draw(st.integers(2, 3))))
    if kind == "cut":
        axis = draw(st.integers(0, len(of(left)) - 1))
        whole = tuple(size * len(parts) if at == axis else size for at, size in enumerate(of(left)))
        return Rule(one, tuple(f"x{part}" for part in parts), f"{left} -> {right}", axis), {one: whole}
    axis = draw(st.integers(0, len(of(right)) - 1))
    return Rule(parts, f"x{number}", f"{left} -> {right}", axis), dict.fromkeys(parts, of(left))


def as_any(kind: str, array: Any) -> Any:
    """The same array as numpy, as jax, and as lazy ones with and without parts."""
    if kind == "parts":
        return in_parts(array.shape, array.dtype, lambda: iter(np.array_split(array.reshape(-1), 3)))
    return {"numpy": array, "jax": jnp.asarray(array), "lazy": LazyArray(array.shape, array.dtype, lambda: array)}[kind]


@given(st.integers(1, 3).flatmap(lambda count: st.tuples(*map(rules, range(count)))), st.data())
def test_there_and_back_is_the_identity(made: tuple[tuple[Rule, dict[str, tuple[int, ...]]], ...], data: Any) -> None:
    rules = [rule for rule, _ in made]
    sizes = {name: 2 + index for index, name in enumerate(NAMES) if name in KeyMap(rules).axes}
    keymap = KeyMap(rules, sizes=sizes)
    shapes = {name: shape for _, found in made for name, shape in found.items()}
    tensors = {name: numbers(*shape, start=1000 * i) for i, (name, shape) in enumerate(shapes.items())}
    kinds = {name: data.draw(st.sampled_from(["numpy", "jax", "lazy", "parts"])) for name in tensors}

    tree = to_fields(keymap, {name: as_any(kinds[name], one) for name, one in tensors.items()})
    back = to_stored(keymap, tree)
    again = to_fields(keymap, back)

    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert tuple(back[name].shape) == tensor.shape
        np.testing.assert_array_equal(np.asarray(back[name]), tensor)
    for (path, stored), (_, again_stored) in zip(flatten(tree), flatten(again), strict=True):
        leaf, same = host(stored), host(again_stored)
        assert tuple(leaf.shape) == np.asarray(leaf).shape, path
        np.testing.assert_array_equal(np.asarray(leaf), np.asarray(same))


D_MODEL, HEADS, KV, D_HEAD, D_FF, VOCAB = 8, 4, 2, 3, 16, 11


def llama(layers: int = 2) -> dict[str, Any]:
    """Weights under the names and in the layouts of Hugging Face's LlamaForCausalLM: Linear is (out, in)."""
    random = np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        return random.standard_normal(shape, dtype=np.float32)

    found = {"model.embed_tokens.weight": weight(VOCAB, D_MODEL), "model.norm.weight": weight(D_MODEL)}
    for i in range(layers):
        found |= {
            f"model.layers.{i}.{name}.weight": weight(*shape)
            for name, shape in {
                "input_layernorm": (D_MODEL,),
                "self_attn.q_proj": (HEADS * D_HEAD, D_MODEL),
                "self_attn.k_proj": (KV * D_HEAD, D_MODEL),
                "self_attn.v_proj": (KV * D_HEAD, D_MODEL),
                "self_attn.o_proj": (D_MODEL, HEADS * D_HEAD),
                "post_attention_layernorm": (D_MODEL,),
                "mlp.gate_proj": (D_FF, D_MODEL),
                "mlp.up_proj": (D_FF, D_MODEL),
                "mlp.down_proj": (D_MODEL, D_FF),
            }.items()
        }
    return found


def test_a_llama_file_is_the_reference_transformer(tmp_path: Path) -> None:
    stored = llama()
    safetensors.numpy.save_file(stored, tmp_path / "model.safetensors")

    params = format.restore(tmp_path / "model.safetensors", Params, keymap=LLAMA.with_sizes(d_head=D_HEAD))

    x = np.random.default_rng(1).standard_normal((5, D_MODEL), dtype=np.float32)
    torch_query = (x @ stored["model.layers.1.self_attn.q_proj.weight"].T).reshape(5, HEADS, D_HEAD)
    query = np.einsum("tm,mhd->thd", x, params.blocks[1].attention.query)
    np.testing.assert_allclose(query, torch_query, rtol=1e-5)
    torch_out = torch_query.reshape(5, -1) @ stored["model.layers.1.self_attn.o_proj.weight"].T
    out = np.einsum("thd,hdm->tm", query, params.blocks[1].attention.out)
    np.testing.assert_allclose(out, torch_out, rtol=1e-4)


def test_the_reference_transformer_is_a_llama_file(tmp_path: Path) -> None:
    stored = llama()
    safetensors.numpy.save_file(stored, tmp_path / "model.safetensors")
    params = format.restore(tmp_path / "model.safetensors", Params, keymap=LLAMA, dims={"d_head": D_HEAD})

    format.save(tmp_path / "out.safetensors", params, keymap=LLAMA, max_shard_bytes=2000)

    index, _ = format.load(tmp_path / "out.safetensors.index.json")
    found = {".".join(path): array for path, array in flatten(index)}
    assert found.keys() == stored.keys()
    assert all(np.array_equal(found[name], stored[name]) for name in stored)


def test_a_tied_head_must_be_tied(tmp_path: Path) -> None:
    stored = llama()
    keymap = LLAMA.with_sizes(d_head=D_HEAD)
    tied = {**stored, "lm_head.weight": stored["model.embed_tokens.weight"]}
    safetensors.numpy.save_file(tied, tmp_path / "tied.safetensors")
    safetensors.numpy.save_file({**tied, "lm_head.weight": numbers(VOCAB, D_MODEL)}, tmp_path / "own.safetensors")

    assert len(format.restore(tmp_path / "tied.safetensors", Params, keymap=keymap, into="numpy").blocks) == 2
    with pytest.raises(KeyMapError, match=r"expected a copy of 'model\.embed_tokens\.weight', got something else"):
        format.restore(tmp_path / "own.safetensors", Params, keymap=keymap)


def test_mapped_tensors_stay_views_of_the_file(tmp_path: Path) -> None:
    safetensors.numpy.save_file(llama(), tmp_path / "model.safetensors")

    params = format.restore(tmp_path / "model.safetensors", Params, keymap=LLAMA, dims={"d_head": D_HEAD}, into="numpy")

    query: Any = params.blocks[0].attention.query
    assert not query.flags.owndata
    assert not query.flags.writeable


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a_tensor_of_other_axes_than_the_layout_is_not_cut(axis: int) -> None:
    rule = Rule("qkv", ("q", "k"), axis=axis, layout="a b -> b a")
    with pytest.raises(KeyMapError) as caught:
        to_fields(KeyMap([rule]), {"qkv": numbers(2, 4, 6)})
    assert str(caught.value).startswith("expected axes 'a b', got float32[2, 4, 6] at 'qkv'")


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        (["0", "40000000000"], "expected all from 0 on to stack, got none with i=1 at 'layers.0.w'"),
        (["40000000000"], "expected all from 0 on to stack, got none with i=0 at 'layers.40000000000.w'"),
        (["0", "9" * 5000], f"expected numbers of at most 18 digits to stack at 'layers.{'9' * 73}'"),
    ],
)
def test_a_hostile_index_costs_nothing(indices: list[str], message: str) -> None:
    tensors = {f"layers.{index}.w": numbers(2) for index in indices}
    with pytest.raises(KeyMapError) as caught:
        to_fields(KeyMap([Rule("layers.{i}.w", "w")]), tensors)
    assert str(caught.value).splitlines()[0] == message


def test_the_first_that_is_missing_of_two_numbers_is_told() -> None:
    tensors = {f"a.{i}.b.{j}": numbers(2) for i in range(2) for j in range(3) if (i, j) != (1, 1)}
    with pytest.raises(KeyMapError, match="got none with i=1, j=1"):
        to_fields(KeyMap([Rule("a.{i}.b.{j}", "w")]), tensors)
