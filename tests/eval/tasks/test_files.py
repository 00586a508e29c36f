"""Files of public benchmarks load unchanged, and wrong ones are refused by file, line and field."""

import json
import pickle

import pyarrow
import pyarrow.parquet
import pytest

from eval.tasks.base import Ask
from eval.tasks.files import FILE_TASKS, Source, find, load, pick
from eval.tasks.formats import FORMATS, split_question
from eval.tasks.pieces import pieces_of
from summarization.resolve import UserError

TEXT = "Some numbers are hidden here.\nOne special number for tea is 1234567. Grass is green.\n\nThe sky is blue."
CHAT = [
    {"role": "user", "content": "write a poem"},
    {"role": "assistant", "content": "a poem"},
    {"role": "user", "content": "Prepend Ab12 to the 1st poem."},
]
GRAPH = "The graph has the edges:\nab -> cd\nab -> ef\n\nOperation:\nFind the nodes at depth 1 from ab."
ROWS = {
    "ruler": {
        "index": 0,
        "input": f"{TEXT}\nWhat is the special number for tea?",
        "outputs": ["1234567"],
        "answer_prefix": " The number is",
    },
    "memagent_hqa": {"index": 0, "context": TEXT, "input": "Which town?", "answers": ["York"], "num_docs": 2},
    "babilong": {"input": TEXT, "question": "Where is Mary?", "target": "kitchen"},
    "mrcr": {
        "prompt": json.dumps(CHAT),
        "answer": "Ab12a poem",
        "random_string_to_prepend": "Ab12",
        "n_needles": 2,
        "desired_msg_index": 1,
        "total_messages": 3,
        "n_chars": 40,
        "date_added": "04-12-2025",
    },
    "graphwalks": {"prompt": GRAPH, "answer_nodes": ["cd", "ef"], "prompt_chars": 90, "problem_type": "bfs"},
    "longbench_v2": {
        "_id": "x",
        "context": TEXT,
        "question": "Which colour?",
        **{f"choice_{letter}": f"colour {letter}" for letter in "ABCD"},
        "answer": "B",
        "difficulty": "easy",
        "length": "short",
    },
    "oolong": {
        "context_window_text": TEXT,
        "question": "How many? Answer in the form Answer: number.",
        "answer": "[3]",
        "answer_type": "ANSWER_TYPE.NUMERIC",
        "task": "count",
        "context_len": 1024,
        "context_window_id": 1,
    },
    "infinitebench": {
        "id": 0,
        "context": TEXT,
        "input": "Which?",
        "answer": ["two"],
        "options": ["one", "two", "x", "y"],
    },
    "longmemeval": {
        "question_id": "q1",
        "haystack_sessions": [CHAT[:2], CHAT[:2]],
        "haystack_dates": ["2023/05/01", "2023/05/02"],
        "question": "Which bus?",
        "question_date": "2023/06/01",
        "answer": "the red bus",
        "question_type": "single-session-user",
    },
}
RIGHT = {
    "ruler": "1234567",
    "memagent_hqa": "the answer is York",
    "babilong": "kitchen",
    "mrcr": "Ab12a poem",
    "graphwalks": "Final Answer: [ef, cd]",
    "longbench_v2": "The correct answer is (B)",
    "oolong": "Answer: 3",
    "infinitebench": "B",
    "longmemeval": "the red bus",
}
# What a row tells of the facts that are needed, once it was read.
NEEDED = {"ruler": ("1234567",), "mrcr": ("a poem",)}
# What each format cannot do without, and a value that it cannot be.
WRONG = {
    "ruler": {"input": 3.5j, "outputs": []},
    "memagent_hqa": {"context": 5, "input": None, "answers": [[1]]},
    "babilong": {"input": [], "question": "", "target": True},
    "mrcr": {"prompt": "no json", "answer": "", "random_string_to_prepend": ["a"]},
    "graphwalks": {"prompt": " ", "answer_nodes": "  "},
    "longbench_v2": {"context": {}, "question": None, "choice_C": [], "answer": "E"},
    "oolong": {"context_window_text": 0.5j, "question": False, "answer": None},
    "infinitebench": {"context": None, "input": [], "answer": "three"},
    "longmemeval": {"haystack_sessions": [["text"]], "question": "", "answer": None},
}


def written(folder, rows, kind="jsonl", name="sample"):
    path = folder / f"{name}.{kind}"
    if kind == "jsonl":
        path.write_text("\n\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    elif kind == "json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)
    return str(path)


def made(path, format, seed=0, **options):
    ask = Ask(seed, 1_000, lambda text: len(text.split()), {"path": path, **options})
    return FILE_TASKS[f"{format}_file"](ask)


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
@pytest.mark.parametrize("format", FORMATS)
def test_every_format_from_every_kind_of_file(tmp_path, format, kind):
    path = written(tmp_path, [ROWS[format]] * 3, kind)
    rows = list(load(path, format))
    assert len({row.id for row in rows}) == 3
    assert [row.id.split("-")[1] for row in rows] == ["0", "1", "2"]
    assert len(list(load(path, format, limit=2))) == 2
    task = made(path, format, seed=2)
    assert task.row.id == rows[2].id
    assert task.scores(RIGHT[format]) == {"official": 1.0, "strict": 1.0}
    assert task.scores(" ") == {"official": 0.0, "strict": 0.0}
    assert task.question
    assert task.answers()
    assert "".join("".join(task.pieces()).split()) == "".join(task.row.sample.context.split()) != ""
    assert task.needed() == NEEDED.get(format, ())


@pytest.mark.parametrize(("format", "field"), [(f, field) for f, fields in WRONG.items() for field in fields])
def test_a_missing_or_wrong_field_is_named_with_its_place(tmp_path, format, field):
    value = WRONG[format][field]
    broken = [{name: v for name, v in ROWS[format].items() if name != field}]
    if value is not None and not isinstance(value, complex):
        broken.append({**ROWS[format], field: value})
    for row in broken:
        path = written(tmp_path, [ROWS[format], row])
        with pytest.raises(UserError, match=rf"sample\.jsonl, line 3: field '{field}'"):
            list(load(path, format))
        path = written(tmp_path, [ROWS[format], row], "json")
        with pytest.raises(UserError, match=rf"sample\.json, row 2: field '{field}'"):
            list(load(path, format))


def test_older_files_lack_fields(tmp_path):
    old = {
        "ruler": {"answer_prefix", "index"},
        "mrcr": {"date_added", "n_needles", "desired_msg_index", "total_messages", "n_chars"},
        "graphwalks": {"problem_type", "prompt_chars"},
        "oolong": {"answer_type", "task", "context_len"},
        "infinitebench": {"id"},
        "longmemeval": {"question_id", "haystack_dates", "question_date", "question_type"},
    }
    for format, names in old.items():
        row = {name: value for name, value in ROWS[format].items() if name not in names}
        task = made(written(tmp_path, [row], name=format), format)
        assert task.scores(RIGHT[format])["official"] == 1.0


def test_graphwalks_takes_the_older_name_and_an_empty_answer(tmp_path):
    row = {"prompt": GRAPH, "answer": []}
    assert made(written(tmp_path, [row]), "graphwalks").scores("Final Answer: []")["strict"] == 1.0


@pytest.mark.parametrize(
    ("text", "question"),
    [
        (f"{TEXT}\nWhat is it for tea?", "What is it for tea?"),
        (f"{TEXT}\n\nQuestion: Which town?\n\nAnswer:", "Question: Which town?\n\nAnswer:"),
        (f"Question: an example?\n{TEXT}\nQuestion: Which?", "Question: Which?"),
        (f"{TEXT}\nWhat is it for tea?<end>\n<assistant>\n", "What is it for tea?<end>\n<assistant>"),
        ("Question: an old one.\n" + "word " * 200 + "\nWhat is it for tea?", "What is it for tea?"),
        ("word " * 200 + "end", " ".join(["word"] * 149) + " end"),
        ("one two", "one two"),
    ],
)
def test_the_question_of_a_ruler_prompt(text, question):
    context, found = split_question(text)
    assert found == question
    assert (context + found).split() == text.split() or (context + " " + found).split() == text.split()


def test_ruler_prefix_and_metric(tmp_path):
    row = {**ROWS["ruler"], "outputs": ["1234567", "7654321"]}
    task = made(written(tmp_path, [row]), "ruler")
    assert task.answer_prefix == " The number is"
    assert task.scores("1234567")["official"] == 0.5
    (tmp_path / "qa_1").mkdir()
    path = written(tmp_path / "qa_1", [row])
    assert made(path, "ruler").scores("1234567")["official"] == 1.0
    assert made(path, "ruler", metric="string_match_all").scores("1234567")["official"] == 0.5
    with pytest.raises(UserError, match="metric is 'string_match', which format 'ruler' has no scorer for"):
        made(path, "ruler", metric="string_match")


def test_the_task_is_read_from_the_path(tmp_path):
    (tmp_path / "qa7").mkdir()
    task = made(written(tmp_path / "qa7", [{**ROWS["babilong"], "target": "none"}], "json", "4k"), "babilong")
    assert task.metric == "qa7"
    keys = {"id": 0, "context": TEXT, "input": "key?", "answer": "ab-cd", "options": []}
    assert made(written(tmp_path, [keys], name="kv_retrieval"), "infinitebench").metric == "kv_retrieval"
    assert made(written(tmp_path, [keys], name="other"), "infinitebench").metric == "substring"
    with pytest.raises(UserError, match="metric is 'longbook_sum_eng'"):
        made(written(tmp_path, [keys], name="longbook_sum_eng"), "infinitebench")


def test_memagent_passages_by_number(tmp_path):
    hotpot = tmp_path / "hotpotqa_dev.json"
    hotpot.write_text(
        json.dumps([{"context": [["B", ["two.", " 2."]], ["A", ["one."]]]}, {"context": [["A", ["one."]]]}])
    )
    path = written(tmp_path, [{**ROWS["memagent_hqa"], "context": [1, 0]}], "json")
    task = made(path, "memagent_hqa", passages=str(hotpot))
    assert task.row.sample.context == "Document 1:\nB\ntwo. 2.\n\nDocument 2:\nA\none."
    with pytest.raises(UserError, match=r"row 1: field 'context' is a list .* by 'passages'"):
        made(path, "memagent_hqa")
    path = written(tmp_path, [{**ROWS["memagent_hqa"], "context": [2]}], "json")
    with pytest.raises(UserError, match="row 1: field 'context' is \\[2\\], must be numbers from 0 to 1"):
        made(path, "memagent_hqa", passages=str(hotpot))
    with pytest.raises(UserError, match="passages is '/nowhere'"):
        made(path, "memagent_hqa", passages="/nowhere")


@pytest.mark.parametrize("answer", ["two", ["two"], ["two", "B"], ["B"], "B"])
def test_infinitebench_answers_come_as_text_or_letter(tmp_path, answer):
    task = made(written(tmp_path, [{**ROWS["infinitebench"], "answer": answer}]), "infinitebench")
    assert task.metric == "longbook_choice_eng"
    assert task.answers() == ("two",)
    assert task.scores("B") == {"official": 1.0, "strict": 1.0}


def test_abstention(tmp_path):
    row = {**ROWS["longmemeval"], "question_id": "q1_abs", "answer": "You never said."}
    task = made(written(tmp_path, [row]), "longmemeval")
    assert task.scores("You did not mention a bus.") == {"official": 1.0, "strict": 1.0}
    assert task.scores("the red bus") == {"official": 0.0, "strict": 0.0}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"input": 1}\n{broken\n', r"a\.jsonl, line 2: the line is no JSON"),
        ("a.jsonl", "{}\n3\n", r"a\.jsonl, line 2: a row must be an object"),
        ("a.json", "[1", r"a\.json: the file is no JSON array"),
        ("a.json", "[]", "holds no row"),
        ("a.parquet", "PAR0", "is no parquet"),
        ("a.csv", "x", "files must end in"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        made(str(tmp_path / name), "ruler", row=1)


def test_what_is_asked_for_must_exist(tmp_path):
    path = written(tmp_path, [ROWS["ruler"]])
    with pytest.raises(UserError, match="there is no row 1; the file has 1"):
        made(path, "ruler", seed=1)
    with pytest.raises(UserError, match="there is no such file"):
        made(str(tmp_path / "none.jsonl"), "ruler")
    with pytest.raises(UserError, match="path is empty"):
        made("", "ruler")
    with pytest.raises(UserError, match="did you mean 'ruler'"):
        list(load(path, "rulers"))


def test_files_of_a_dataset():
    known = ["README.md", "data/a.parquet", "data/b.parquet"]
    assert pick("owner/name", "data/b.parquet", known) == "data/b.parquet"
    assert pick("owner/name", "", known[:2]) == "data/a.parquet"
    with pytest.raises(UserError, match=r"did you mean 'data/b\.parquet'"):
        pick("owner/name", "data/c.parquet", known[2:])
    with pytest.raises(UserError, match=r"by 'file'; it has 2: data/a\.parquet, data/b\.parquet"):
        pick("owner/name", "", known)


def test_a_downloaded_dataset_is_found_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = tmp_path / "datasets--owner--name"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    (folder / "snapshots" / commit).mkdir(parents=True)
    path = written(folder / "snapshots" / commit, [ROWS["ruler"]])
    assert find("owner/name", "sample.jsonl") == Source(
        folder / "snapshots" / commit / "sample.jsonl", "owner/name", commit
    )
    with pytest.raises(UserError, match="cannot be had from the hub"):
        find("owner/other", "sample.jsonl")
    assert path.endswith("sample.jsonl")


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "",
        "\n\n  \n",
        "word " * 1000,
        "line of five words here\n" * 500,
        "x" * 5000,
        "大海" * 3000,
        "a\n\nb\n\n\n\nc  d\te",
        f"{'y' * 2500} {'z ' * 300}\nend",
    ],
)
def test_pieces_lose_nothing(text):
    parts = list(pieces_of(text))
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part.strip() and len(part.split()) <= 100 and len(part) <= 1001 for part in parts)
    if max(map(len, text.split()), default=0) < 1000:
        assert " ".join(parts).split() == text.split()


def test_paragraphs_stay_whole():
    assert list(pieces_of("one\ntwo\n\nthree")) == ["one\ntwo", "three"]


def test_tasks_can_be_sent_to_another_process():
    for task in FILE_TASKS.values():
        assert pickle.loads(pickle.dumps(task)) is task
