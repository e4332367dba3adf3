"""Lines of Jepsen histories with the event of each, and malformed ones with the reason."""

from typing import Any

HEAD = ":index 7, :time 50, :type :ok, :process 3"


def record(topic: str, offset: int | None, value: str | None) -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "offset": offset, "key": None, "value": value, "timestamp": None}


def send(topic: str, offset: int | None, value: str) -> dict[str, Any]:
    return {"f": "send", **record(topic, offset, value), "records": None, "offsets": None}


def poll(*records: dict[str, Any]) -> dict[str, Any]:
    nothing = dict.fromkeys(("topic", "partition", "offset", "key", "value", "timestamp", "offsets"))
    return {"f": "poll", **nothing, "records": list(records)}


def key(topic: str) -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "offset": None, "start": None}


COMMON = {"time": 50, "process": "3", "type": "ok"}
EVENT_OF = [  # the text after HEAD, and the event without the fields of COMMON
    (":f :send, :value [[:send 1 5]]", {"f": "send", "topic": "1", "partition": 0, "value": "5"}),
    (
        ":f :send, :value [[:send :x [9 5]]]",
        {"f": "send", "topic": "x", "partition": 0, "value": "5", "offset": 9},
    ),
    (":f :send, :value [[:send :x [nil 5]]]", {"f": "send", "topic": "x", "partition": 0, "value": "5"}),
    (
        ":f :send, :value [[:send 1 [0 5]] [:send 2 6]]",
        {"f": "txn", "ops": [send("1", 0, "5"), send("2", None, "6")]},
    ),
    (
        ':f :send, :value [[:send ["orders" 0] [3 {:b #{2 1}, :a 1/2}]]]',
        {"f": "send", "topic": '["orders" 0]', "partition": 0, "value": "{:a 1/2, :b #{1 2}}", "offset": 3},
    ),
    (":f :send, :value []", {"f": "txn", "ops": []}),
    (":f :send, :value [[:poll] [:send 1 5]]", {"f": "send", "topic": "1", "partition": 0, "value": "5"}),
    (":f :send, :value nil", {"f": "send", "type": "info"}),
    (":f :txn, :value nil, :error :timeout", {"f": "txn", "ops": [], "error": "timeout"}),
    (":f :txn", {"f": "txn", "ops": []}),
    (":f :poll, :value nil", {"f": "poll", "records": []}),
    (":f :poll, :value [[:poll]]", {"f": "poll", "records": []}),
    (":f :poll, :value [[:poll {}] [:poll nil]]", {"f": "poll", "records": []}),
    (
        ":f :poll, :value [[:poll {1 [[0 5] [nil 6]], :x []}] [:poll {1 [[2 7]]}]]",
        {
            "f": "poll",
            "records": [
                record("1", 0, "5"),
                record("1", None, "6"),
                record("x", None, None),
                record("1", 2, "7"),
            ],
        },
    ),
    (":f :poll, :value [[:send 1 5] [:poll {1 [[0 6]]}]]", {"f": "poll", "records": [record("1", 0, "6")]}),
    (":f :txn, :value [[:send 1 5]]", {"f": "txn", "ops": [send("1", None, "5")]}),
    (
        ":f :txn, :value [[:poll] [:poll {2 [[0 5]], 1 []}] [:send :x [3 6]] [:poll {}]]",
        {
            "f": "txn",
            "ops": [poll(), poll(record("2", 0, "5"), record("1", None, None)), send("x", 3, "6"), poll()],
        },
    ),
    (":f :assign, :value [1 :x]", {"f": "assign", "offsets": [key("1"), key("x")]}),
    (":f :assign, :value [1], :seek-to-beginning? true", {"f": "assign", "offsets": [{**key("1"), "offset": 0}]}),
    (":f :assign, :value [1], :seek-to-beginning? false", {"f": "assign", "offsets": [key("1")]}),
    (":f :assign, :value []", {"f": "assign", "offsets": []}),
    (':f :subscribe, :value ["1" 1 :1]', {"f": "subscribe", "topics": ['"1"', "1", ":1"]}),
    (":f :crash, :value nil", {"f": "crash"}),
    (":f :crash, :value nil, :error :killed", {"f": "crash", "error": "killed"}),
    (':f :crash, :error [:unknown "a, :b"]', {"f": "crash", "error": '[:unknown "a, :b"]'}),
    (':f :crash, :error "gone"', {"f": "crash", "error": "gone"}),
    (
        ":f :poll, :value [[:poll]], :rebalance-log [{:keys [1 :x]} {:keys [1 2]} {}]",
        {"f": "poll", "records": [], "rebalanced": ["1", "x", "2"]},
    ),
    (":f :debug-topic-partitions, :value [1 2]", None),
    (":f :something-else, :value {:a 1}", None),
]
EVENT = [  # whole lines
    (
        "{:index 7 :type :info :process 1 :f :crash}",
        {"time": 7, "process": "1", "type": "info", "f": "crash"},
    ),
    (
        "{:f :crash, :process 12345678901234567890, :time 5, :type :fail}",
        {"time": 5, "process": "12345678901234567890", "type": "fail", "f": "crash"},
    ),
    (
        "#jepsen.history.Op{:time 1 :type :ok :process 0 :f :crash}",
        {"time": 1, "process": "0", "type": "ok", "f": "crash"},
    ),
    (
        "{:time 1, :type :info, :process :nemesis, :f :kill, :value nil}",
        {
            "time": 1,
            "process": "nemesis",
            "type": "info",
            "f": "fault",
            "fault": {"kind": "kill", "value": None},
        },
    ),
    (
        '{:time 1, :type :info, :process :nemesis, :f :start-partition, :value {"n1" #{"é"}}}',
        {
            "time": 1,
            "process": "nemesis",
            "type": "info",
            "f": "fault",
            "fault": {"kind": "partition", "value": '{"n1" #{"é"}}'},
        },
    ),
    (
        '{:time 1, :type :info, :process "nemesis", :f :start, :value :all}',
        {
            "time": 1,
            "process": '"nemesis"',
            "type": "info",
            "f": "heal",
            "fault": {"kind": "restart", "value": "all"},
        },
    ),
    ("", None),
    (" ,\t\r", None),
    ("; a comment {", None),
    ("#_ {:a 1}", None),
]
MALFORMED = [
    ("{:type :ok, :f :crash, :time 1}", "without :process"),
    ("{:process 1, :f :crash, :time 1}", "without :type"),
    ("{:process 1, :type :ok, :time 1}", "without :f"),
    ("{:process nil, :type :ok, :f :crash, :time 1}", "without :process"),
    ("{:process 1, :type :maybe, :f :crash, :time 1}", "found :type :maybe"),
    ('{:process 1, :type "ok", :f :crash, :time 1}', 'found :type "ok"'),
    ('{:process 1, :type :ok, :f "crash", :time 1}', 'found :f "crash"'),
    ("{:process 1, :type :ok, :f :crash}", "as :time or :index"),
    ("{:process 1, :type :ok, :f :crash, :time 1.5}", "found 1.5 as :time"),
    ("{:process 1, :type :ok, :f :crash, :time 9223372036854775808}", "expected an integer of 64 bits"),
    ("{:process 1, :type :ok, :f :crash, :time 1, :time 2}", "a key twice"),
    ("{:process 1, :type :ok, :f :crash, :time 1} 2", "2 forms"),
    ("[:process 1]", "expected an operation map"),
    ("hello", "expected an operation map"),
    ('{"type":"ok"}', "expected a keyword"),
    ("{:process 1, :type :ok, :f :crash, :time 1", "the end of the text"),
    (f"{{{HEAD}, :f :send, :value 5}}", "found :value 5"),
    (f"{{{HEAD}, :f :send, :value [5]}}", "found 5, expected [:send key value]"),
    (f"{{{HEAD}, :f :send, :value [[:send 1]]}}", "found [:send 1]"),
    (f"{{{HEAD}, :f :send, :value [[:send 1 [1 2 3]]]}}", "found [1 2 3] as a value"),
    (f"{{{HEAD}, :f :send, :value [[:send 1 [:a 2]]]}}", "found :a as an offset"),
    (f"{{{HEAD}, :f :send, :value [[:send 1 [9223372036854775808 2]]]}}", "as an offset"),
    (f"{{{HEAD}, :f :poll, :value [[:poll 5]]}}", "found [:poll 5]"),
    (f"{{{HEAD}, :f :poll, :value [[:poll {{1 5}}]]}}", "found the records of a key 5"),
    (f"{{{HEAD}, :f :poll, :value [[:poll {{1 [[0 1 2]]}}]]}}", "expected [offset value]"),
    (f"{{{HEAD}, :f :poll, :value [[:poll {{1 [[0 1]], 1 [[1 2]]}}]]}}", "a key twice"),
    (f"{{{HEAD}, :f :poll, :value [], :rebalance-log 5}}", "found :rebalance-log 5"),
    (f"{{{HEAD}, :f :assign, :value 5}}", "found :value 5"),
]
TEXTS = [
    ("1", "1"),
    ('"1"', '"1"'),
    (":x", "x"),
    ('"x"', '"x"'),
    ("x", "'x"),
    (":a/b", "a/b"),
    (":nil", ":nil"),
    ("nil", "nil"),
    ('"nil"', '"nil"'),
    (":-1", ":-1"),
    (r"\x", r"\x"),
    ("1.0", "1.0"),
    ("1.0M", "1.0M"),
    ("1/2", "1/2"),
    ('"two words"', "two words"),
    ('"2 words"', '"2 words"'),
    ('#inst "2026"', '#inst "2026"'),
]
