"""Golden values of both scores of every public benchmark."""

import pytest

from eval.tasks import file_scores as s
from eval.tasks.infinitebench_scores import RULES, infinitebench

PASSAGE = "One special number for tea is 1234567. Bananas grow. Apples fall. Cherries too. Another is 7654321."


def pair(scores):
    return scores["official"], scores["strict"]


@pytest.mark.parametrize(
    ("answer", "outputs", "metric", "expected"),
    [
        ("It is 1234567.", ["1234567"], "string_match_all", (1, 1)),
        ("12345678", ["1234567"], "string_match_all", (1, 0)),  # the substring fault
        (PASSAGE, ["1234567"], "string_match_all", (1, 0)),  # a dump names other numbers
        ("1. 1234567", ["1234567", "7654321"], "string_match_all", (0.5, 0.5)),
        ("1234567 or 9999999", ["1234567", "7654321"], "string_match_all", (0.5, 0)),
        ("bananas, apples", ["apples", "bananas"], "string_match_all", (1, 1)),
        ("bananas, apples, cherries", ["apples", "bananas"], "string_match_all", (1, 0)),
        ("VAR ABCDE and XYZZY", ["ABCDE"], "string_match_all", (1, 0)),
        ("a poet", ["poet", "writer"], "string_match_part", (1, 1)),
        ("poetry", ["poet", "writer"], "string_match_part", (1, 0)),
        ("word " * 60 + "poet", ["poet"], "string_match_part", (1, 0)),
        ("", ["poet"], "string_match_part", (0, 0)),
    ],
)
def test_ruler(answer, outputs, metric, expected):
    assert pair(s.ruler(answer, outputs, metric, "What is the special number for tea?", PASSAGE)) == expected


def test_ruler_knows_uuids():
    one, two = "0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    assert pair(s.ruler(one, [one], "string_match_all", "", "")) == (1, 1)
    assert pair(s.ruler(f"{one} {two}", [one], "string_match_all", "", "")) == (1, 0)


@pytest.mark.parametrize(
    ("answer", "metric", "expected"),
    [
        ("Therefore, the answer is New York.", "sub_em", (1, 1)),
        ("Therefore, the answer is New York.", "em", (1, 1)),
        ("so \\boxed{the city of New York}", "sub_em", (1, 1)),
        ("so \\boxed{the city of New York}", "em", (0, 0)),
        ("the answer is n", "sub_em", (1, 0)),  # within the right answer is enough for the public scorer
        ("New York", "sub_em", (0, 1)),  # it wants its phrase
        ("the answer is NYC", "sub_em", (0, 1)),  # and knows no alias
        ("the answer is Boston", "sub_em", (0, 0)),
    ],
)
def test_memagent(answer, metric, expected):
    assert pair(s.memagent(answer, ["New York", "NYC"], metric)) == expected


@pytest.mark.parametrize(
    ("answer", "target", "task", "expected"),
    [
        ("The kitchen.", "kitchen", "qa1", (1, 1)),
        ("Kitchen. Not the garden.", "kitchen", "qa1", (1, 0)),  # only the first sentence is read
        ("kitchen or garden", "kitchen", "qa1", (0, 0)),
        ("from the office to the kitchen", "kitchen", "qa1", (1, 1)),  # the office is in the question
        ("none", "none", "qa7", (0, 1)),  # 'none' holds 'one'
        ("milk, apple", "apple,milk", "qa8", (1, 1)),
        ("milk", "apple,milk", "qa8", (0, 0)),
        ("n,w", "n,w", "auto", (1, 1)),
        ("n, w", "n,w", "auto", (0, 1)),
        ("", "kitchen", "qa1", (0, 0)),
    ],
)
def test_babilong(answer, target, task, expected):
    labels = s.babilong_labels(task, target)
    assert pair(s.babilong(answer, target, "Where was Mary after the office?", labels)) == expected


def test_babilong_finds_the_task_by_its_target():
    assert s.babilong_labels("auto", "garden") == s.BABILONG_LABELS["qa1"]
    assert s.babilong_labels("auto", "maybe") == s.BABILONG_LABELS["qa10"]


def test_mrcr():
    right = "Ab12 a poem of the sea"
    assert pair(s.mrcr(right, right, "Ab12")) == (1, 1)
    assert pair(s.mrcr(right[5:], right, "Ab12")) == (0, 0)
    assert pair(s.mrcr("\n" + right, right, "Ab12")) == (0, 1)
    half = s.mrcr("Ab12 a poem", right, "Ab12")
    assert half["official"] == pytest.approx(2 * 7 / (7 + 18))
    assert pair(s.mrcr(right + " and so on" * 60, right, "Ab12"))[1] == 0


def test_mrcr_autojunk_lowers_only_the_official_score():
    text = "the cat sat on the mat and looked at the sea for a long time. " * 10
    scores = s.mrcr("Ab12" + text.replace("sea", "sky", 1), "Ab12" + text, "Ab12")
    assert scores["official"] < 0.9 < 0.99 < scores["strict"] < 1


@pytest.mark.parametrize(
    ("answer", "nodes", "expected"),
    [
        ("Thus\nFinal Answer: [ab, cd]", ["ab", "cd"], (1, 1)),
        ("Final Answer:[cd,ab]", ["ab", "cd"], (1, 1)),
        ("Final Answer: [ab, cd].", ["ab", "cd"], (1, 1)),  # its pattern has no end
        ("Final Answer: [ab]", ["ab", "cd"], (2 / 3, 2 / 3)),
        ("Final Answer: [ab, ab]", ["ab", "cd"], (2 / 3, 2 / 3)),
        ("Final Answer: [ab, cd, xx]", ["ab", "cd"], (0.8, 0.8)),
        ("Final Answer: [ab, cd, x, y, z]", ["ab", "cd"], (4 / 7, 0)),  # too many to be an answer
        ("Final Answer: [ab, cd]\n", ["ab", "cd"], (0, 1)),  # the public scorer reads the last line only
        ("Final Answer: [ab, cd]\nDone.", ["ab", "cd"], (0, 1)),
        ("final answer: [ab, cd]", ["ab", "cd"], (0, 1)),  # and minds the case
        ("Final Answer:  [ab, cd]", ["ab", "cd"], (0, 1)),
        ("**Final Answer:** [AB, `cd`]", ["ab", "cd"], (0, 1)),
        ("Final Answer: ['ab', 'cd']", ["ab", "cd"], (0, 1)),
        ("Final Answer: [xx]\nNo. Final Answer: [ab, cd]", ["ab", "cd"], (1, 1)),
        ("Final Answer: [xx] Final Answer: [ab, cd]", ["ab", "cd"], (0.5, 1)),  # from the first bracket to the last
        ("ab, cd", ["ab", "cd"], (0, 0)),
        ("Final Answer: []", ["ab"], (0, 0)),
        ("Final Answer: []", [], (1, 1)),
        ("Final Answer: [xx]", [], (0, 0)),
        ("Final Answer: [xx]", ["ab"], (0, 0)),
    ],
)
def test_graphwalks(answer, nodes, expected):
    assert pair(s.graphwalks(answer, nodes)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The correct answer is (B)", (1, 1)),
        ("**The correct answer is B**", (1, 1)),
        ("B", (0, 1)),
        ("(B) because of A", (0, 1)),
        ("The correct answer is (A)", (0, 0)),
        ("The correct answer is (B). No, the answer is (C)", (1, 0)),
        ("A person would say so", (0, 0)),
    ],
)
def test_longbench_v2(answer, expected):
    assert pair(s.longbench_v2(answer, "B")) == expected


@pytest.mark.parametrize(
    ("answer", "right", "kind", "expected"),
    [
        ("Label: spam", "['spam']", "ANSWER_TYPE.LABEL", (1, 1)),
        ("Label: Spam.", "['spam']", "ANSWER_TYPE.LABEL", (0, 1)),
        ("Answer: [12]", "[12]", "ANSWER_TYPE.NUMERIC", (1, 1)),
        ("Answer: 14", "[12]", "ANSWER_TYPE.NUMERIC", (0.75**2, 0)),
        ("many", "[12]", "ANSWER_TYPE.NUMERIC", (0, 0)),
        ("Answer: spam is more common than ham", "['more common than']", "ANSWER_TYPE.COMPARISON", (1, 1)),
        ("Answer: more common, not less common", "['more common than']", "ANSWER_TYPE.COMPARISON", (1, 0)),
        ("Date: Jan 05, 2023", "[datetime.date(2023, 1, 5)]", "ANSWER_TYPE.DATE", (1, 1)),
        ("Date: Jan 06, 2023", "[datetime.date(2023, 1, 5)]", "ANSWER_TYPE.DATE", (0, 0)),
        ("I think that it must be spam", "['spam']", "ANSWER_TYPE.LABEL", (1, 0)),
    ],
)
def test_oolong(answer, right, kind, expected):
    assert pair(s.oolong(answer, right, kind)) == expected


@pytest.mark.parametrize(
    ("task", "answer", "labels", "expected"),
    [
        ("passkey", "The key is 71432.", ["71432"], (1, 1)),
        ("passkey", "71432 or 99999", ["71432"], (1, 0)),
        ("number_string", "12 is wrong, 71432", ["71432"], (0, 0)),
        ("kv_retrieval", '{"v": "ab-cd"}', ["ab-cd"], (1, 1)),
        ("kv_retrieval", "xab-cd", ["ab-cd"], (0, 0)),
        ("longdialogue_qa_eng", "It was John.", ["JOHN"], (1, 1)),
        ("longdialogue_qa_eng", "John Doe", ["JOHN DOE"], (0, 1)),  # words are compared one by one
        ("longbook_choice_eng", "B. the sea", ["the sea", "B"], (1, 1)),
        ("longbook_choice_eng", "Because: the answer is C", ["the sea", "B"], (1, 0)),  # its first letter is B
        ("longbook_choice_eng", "the answer is C", ["the sea", "B"], (0, 0)),
        ("longbook_choice_eng", "the sea", ["the sea", "B"], (0, 1)),
        ("longbook_qa_eng", "the old sea", ["sea"], (2 / 3, 1)),
        ("longbook_qa_chn", "大海", ["大海。"], (1, 1)),
        ("math_find", "It is 42", [42], (1, 1)),
        ("math_find", "4.5, or 7", [4.5], (1, 0)),
        ("math_calc", "1, 2, 9", [1, 2, 3, 4], (0.5, 0.5)),
        ("code_run", "So it returns -7", [-7], (1, 1)),
        ("code_run", "-7 it is", [-7], (0, 1)),
        ("code_debug", "B. my_function", ["my_function", "B"], (1, 1)),
        ("code_debug", "The answer is: my_function", ["my_function", "B"], (1, 0)),
        ("substring", "seaside", ["sea"], (1, 0)),
    ],
)
def test_infinitebench(task, answer, labels, expected):
    assert pair(infinitebench(answer, labels, task)) == pytest.approx(expected)


@pytest.mark.parametrize("task", sorted(RULES))
def test_infinitebench_gives_nothing_for_nothing(task):
    assert pair(infinitebench("", ["12", "B"] if "choice" in task or "debug" in task else ["12"], task)) == (0, 0)


@pytest.mark.parametrize(
    ("answer", "right", "abstains", "expected"),
    [
        ("You took the red bus.", "the red bus", False, (1, 1)),
        ("A bus it was, and red.", "the red bus", False, (1, 0)),
        ("blue bus", "the red bus", False, (0, 0)),
        ("Seven", "7", False, (0, 0)),  # a judge would accept it
        ("You did not mention that.", "You did not say.", True, (1, 1)),
        ("The red bus.", "You did not say.", True, (0, 0)),
    ],
)
def test_longmemeval(answer, right, abstains, expected):
    assert pair(s.longmemeval(answer, right, abstains)) == expected
