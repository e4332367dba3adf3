import contextlib
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.readers import edn
from logjudge.histories.readers.edn import Char, Keyword, Symbol, Tagged

K = Keyword

FORMS = [
    ("nil", None),
    ("true", True),
    ("false", False),
    ("0", 0),
    ("-12", -12),
    ("+7", 7),
    ("12N", 12),
    ("0x1F", 31),
    ("-0x1f", -31),
    ("017", 15),
    ("2r101", 5),
    ("36rZ", 35),
    ("123456789012345678901234567890", 123456789012345678901234567890),
    ("1.5", 1.5),
    ("1e3", 1000.0),
    ("-1.", -1.0),
    ("1e999", math.inf),
    ("##-Inf", -math.inf),
    ("1.50M", Decimal("1.50")),
    ("1/2", Fraction(1, 2)),
    ("4/2", 2),
    ('""', ""),
    (r'"a\n\t\"\\\u00e9\101"', 'a\n\t"\\éA'),
    (r'"\ud83d\ude00"', "😀"),
    ('"two\nlines"', "two\nlines"),
    (r"\a", Char("a")),
    (r"\newline", Char("\n")),
    (r"\u00e9", Char("é")),
    (r"[\a\(\]]", (Char("a"), Char("("), Char("]"))),
    (":a", K("a")),
    (":a.b/c-d?", K("a.b/c-d?")),
    (":1", K("1")),
    ("foo", Symbol("foo")),
    ("/", Symbol("/")),
    ("-", Symbol("-")),
    ("[1 [2], 3]", (1, (2,), 3)),
    ("(1 2)", (1, 2)),
    ("[]", ()),
    ("{}", {}),
    ("{:a 1, :b [2]}", {K("a"): 1, K("b"): (2,)}),
    ("{{:a 1} 2}", {edn.Map({K("a"): 1}): 2}),
    ("#{1 :a}", frozenset((1, K("a")))),
    ("#{[1] {:a 1}}", frozenset(((1,), edn.Map({K("a"): 1})))),
    ('#inst "2026"', Tagged("inst", "2026")),
    (r'[#"a\"[b" 1]', (Tagged('"', r"a\"[b"), 1)),
    ("#'clojure.core/inc", Tagged("'", Symbol("clojure.core/inc"))),
    ("#:a.b{:c 1}", Tagged(":a.b", {K("c"): 1})),
    ("#jepsen.history.Op{:f 1}", Tagged("jepsen.history.Op", {K("f"): 1})),
    ("#a #b 1", Tagged("a", Tagged("b", 1))),
    ("1 ; a comment", 1),
    ("; first\n[1 ; inside ]\n 2]", (1, 2)),
    ("[1 #_ 2 3]", (1, 3)),
    ("[#_ #_ 1 2 3]", (3,)),
    ("[#_ #a 1 2]", (2,)),
    ("#_[1 2] 3", 3),
    (",, 1 ,", 1),
]

ERRORS = [
    ("", "found no form at character 0, expected one form"),
    ("1 2", "found 2 forms at character 3, expected one form"),
    ("[1", "found the end of the text inside [ at character 0, expected its end"),
    ("#_", "inside #_"),
    ("]", "found ] at character 0, expected a form"),
    ("[1)", "found ) at character 2, expected ]"),
    ("[#a]", "found ] at character 3, expected a form after #a"),
    ("{:a}", "a map with a key without value"),
    ("{:a 1 :a 2}", "a map with a key twice"),
    ("{1 :a, 1.0 :b}", "a map with a key twice"),
    ("#{1 1}", "a set with a member twice"),
    ('"abc', "a string without end"),
    (r'"\q"', "the escape"),
    (r'"\u12"', "the escape"),
    (r'"\ud800"', "half a surrogate pair"),
    (r"\ud800", "expected a character"),
    (r"\abc", "expected a character"),
    ("1x", "expected a number"),
    ("09", "expected a number"),
    ("1/0", "expected a number"),
    ("2r9", "expected a number"),
    ("1e99999999999999999999M", "expected a number"),
    ("9" * 5000, "a number of 5000 characters"),
    (":", "expected a keyword"),
    ("::a", "expected a keyword"),
    (":a:", "expected a keyword"),
    (":a/", "expected a keyword"),
    ("a\u2028b", "expected a keyword"),
    ("##Nope", "expected a form"),
    ("^{:a 1} b", "found '^' at character 0"),
    ("@a", "found '@'"),
    ("[\x00]", "'\\x00' at character 1"),
    ("[" * 101, "101 levels deep"),
    ("#_" * 101, "101 levels deep"),
]


@pytest.mark.parametrize(("text", "form"), FORMS)
def test_reads(text: str, form: object) -> None:
    found = edn.loads(text)
    assert found == form
    assert type(found) is type(form) or isinstance(form, dict)


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(edn.EdnError) as error:
        edn.loads(text)
    assert message in str(error.value)
    assert 0 <= error.value.position <= len(text)


def test_not_a_number_is_read_and_written() -> None:
    assert math.isnan(edn.loads("##NaN"))
    assert edn.dumps(math.nan) == "##NaN"


def test_reads_a_hundred_levels() -> None:
    assert edn.dumps(edn.loads("[" * 100 + "]" * 100)) == "[" * 100 + "]" * 100


names = st.from_regex(r"\A[a-z*!?<>=-][a-z0-9*!?.#:-]{0,8}[a-z0-9]\Z").filter(lambda name: "::" not in name)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.fractions()
    | st.text()
    | st.builds(Char, st.characters(exclude_categories=["Cs", "Cc", "Zs", "Cn"]))
    | st.builds(Keyword, names)
)
forms = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple)
        | st.frozensets(inner, max_size=4)
        | st.dictionaries(inner, inner, max_size=4).map(edn.Map)
        | st.builds(Tagged, names.map(lambda name: f"t{name}"), inner)
    ),
    max_leaves=12,
)


@given(forms)
def test_reads_what_it_writes(form: object) -> None:
    text = edn.dumps(form)
    assert "\n" not in text
    assert edn.dumps(edn.loads(text)) == text


@given(st.text(alphabet='[]{}()#_:;"\\ ,ab01.-/uN\n\u00e9\x00', max_size=40) | st.text(max_size=40))
def test_any_text_is_forms_or_an_edn_error(text: str) -> None:
    texts = []
    with contextlib.suppress(edn.EdnError):
        texts = [edn.dumps(form) for form in edn.read_all(text)]
    assert [edn.dumps(edn.loads(written)) for written in texts] == texts
