"""The tasks that have a short name."""

from __future__ import annotations

BUILTIN = {
    "recall": "eval.tasks.recall:RecallTask",
    "chain": "eval.tasks.recall:ChainTask",
    "niah_single_1": "eval.tasks.niah:NiahSingle1",
    "niah_single_2": "eval.tasks.niah:NiahSingle2",
    "niah_single_3": "eval.tasks.niah:NiahSingle3",
    "niah_multikey_1": "eval.tasks.niah:NiahMultikey1",
    "niah_multikey_2": "eval.tasks.niah:NiahMultikey2",
    "niah_multikey_3": "eval.tasks.niah:NiahMultikey3",
    "niah_multivalue": "eval.tasks.niah:NiahMultivalue",
    "niah_multiquery": "eval.tasks.niah:NiahMultiquery",
    "vt": "eval.tasks.tracking:VariableTracking",
    "cwe": "eval.tasks.frequencies:CommonWords",
    "fwe": "eval.tasks.frequencies:FrequentWords",
    "qa_1": "eval.tasks.articles:SingleHop",
    "qa_2": "eval.tasks.articles:TwoHop",
    "world_one_fact": "eval.tasks.worlds:OneFact",
    "world_two_facts": "eval.tasks.worlds:TwoFacts",
    "world_three_facts": "eval.tasks.worlds:ThreeFacts",
    "world_yes_no": "eval.tasks.worlds:YesNo",
    "world_counting": "eval.tasks.worlds:Counting",
    "world_lists": "eval.tasks.worlds:Lists",
    "mrcr": "eval.tasks.requests:Requests",
    "graphwalks_bfs": "eval.tasks.graphs:BreadthFirst",
    "graphwalks_parents": "eval.tasks.graphs:Parents",
    "ledger": "eval.tasks.ledger:Ledger",
    "codebase": "eval.tasks.codebase:Codebase",
    "entropy": "eval.tasks.entropy:Entropy",
}

# Each reads a file of its benchmark, named under `files` in a YAML.
FORMATS = {
    "ruler": "eval.tasks.files:RulerFile",
    "memagent_hqa": "eval.tasks.files:MemAgentFile",
    "babilong": "eval.tasks.files:BabilongFile",
    "mrcr": "eval.tasks.files:MrcrFile",
    "graphwalks": "eval.tasks.files:GraphwalksFile",
    "longbench_v2": "eval.tasks.files:LongBenchFile",
    "oolong": "eval.tasks.files:OolongFile",
    "infinitebench": "eval.tasks.files:InfiniteBenchFile",
    "longmemeval": "eval.tasks.files:LongMemEvalFile",
}
