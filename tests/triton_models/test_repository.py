"""The model repository on the real server: names, types, shapes, and what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from apps.releases.training.paths import MODEL_REPOSITORY, TOKENIZER_DIR, load_normalizer
from apps.releases.training.served import ServedModel

module = load_normalizer()
TEXTS = (
    "see you at the library tomorrow",
    "fr\u0435\u0435 m\u043en\u0435y at http://a.example/%63asino",
    "加 微 信 领 红 包",
    "",
    "😀😀",
    "you stupid worthless idiot",
    "a" * 3_000,
)


@pytest.fixture(scope="module")
def client(triton: dict[str, Any]) -> Any:
    with triton_grpc.InferenceServerClient(triton["triton"][0]["grpc"]) as client:
        yield client


def text_input(texts: list[bytes]) -> triton_grpc.InferInput:
    tensor = triton_grpc.InferInput("TEXT", [len(texts), 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[text] for text in texts], dtype=object))
    return tensor


def infer(client: Any, model: str, texts: list[bytes], *outputs: str) -> list[np.ndarray]:
    wanted = [triton_grpc.InferRequestedOutput(name) for name in outputs]
    result = client.infer(model, [text_input(texts)], outputs=wanted, client_timeout=30)
    return [result.as_numpy(name) for name in outputs]


def test_the_ensemble_has_the_contracted_tensors(client: Any) -> None:
    metadata = client.get_model_metadata("moderation", as_json=True)
    assert [(t["name"], t["datatype"], t["shape"]) for t in metadata["inputs"]] == [
        ("TEXT", "BYTES", ["-1", "1"])
    ]
    assert [(t["name"], t["datatype"], t["shape"]) for t in metadata["outputs"]] == [
        ("SCORES", "FP32", ["-1", "4"]),
        ("UNDONE", "INT32", ["-1", "1"]),
    ]
    assert client.get_model_config("moderation", as_json=True)["config"]["max_batch_size"] == 1024


def test_the_classifier_takes_ids_and_gives_four_logits(client: Any) -> None:
    metadata = client.get_model_metadata("classifier", as_json=True)
    assert [(t["name"], t["datatype"], t["shape"]) for t in metadata["inputs"]] == [
        ("input_ids", "INT64", ["-1", "-1"]),
        ("attention_mask", "INT64", ["-1", "-1"]),
    ]
    assert [(t["name"], t["datatype"], t["shape"]) for t in metadata["outputs"]] == [
        ("logits", "FP32", ["-1", "4"])
    ]


def test_steps_have_queues_with_limits(client: Any) -> None:
    for model in ("tokenizer", "postprocess"):
        batching = client.get_model_config(model, as_json=True)["config"]["dynamic_batching"]
        policy = batching["default_queue_policy"]
        assert policy["max_queue_size"] > 0
        assert int(policy["default_timeout_microseconds"]) > 0


def test_the_step_with_unlike_shapes_has_no_batcher_that_could_fall_asleep(client: Any) -> None:
    config = client.get_model_config("classifier", as_json=True)["config"]
    assert "dynamic_batching" not in config


def test_scores_are_probabilities_for_every_kind_of_text(client: Any) -> None:
    scores, undone = infer(client, "moderation", [t.encode() for t in TEXTS], "SCORES", "UNDONE")
    assert scores.shape == (len(TEXTS), 4)
    assert np.isfinite(scores).all()
    assert scores.sum(axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    bits = module.UNDONE_BITS
    assert undone[0, 0] == 0
    assert undone[1, 0] == bits["look_alikes"] | bits["encoded_links"]
    assert undone[2, 0] == bits["spaced_letters"]
    assert undone[6, 0] & bits["truncated"]


def test_the_server_gives_what_training_measured(client: Any) -> None:
    served = ServedModel(MODEL_REPOSITORY, TOKENIZER_DIR).scores(TEXTS)
    (scores,) = infer(client, "moderation", [t.encode() for t in TEXTS], "SCORES")
    assert scores == pytest.approx(served, abs=1e-6)


def test_a_message_scores_the_same_alone_and_in_any_batch(client: Any) -> None:
    (together,) = infer(client, "moderation", [t.encode() for t in TEXTS], "SCORES")
    for row, text in enumerate(TEXTS):
        (alone,) = infer(client, "moderation", [text.encode()], "SCORES")
        assert alone[0].tolist() == together[row].tolist()


def test_broken_bytes_do_not_poison_their_batch(client: Any) -> None:
    batch = [b"hello there", b"\xed\xa0\xbd\xff", b"a\0b", b"good night"]
    scores, undone = infer(client, "moderation", batch, "SCORES", "UNDONE")
    (clean,) = infer(client, "moderation", [batch[0], batch[3]], "SCORES")
    assert np.isfinite(scores).all()
    assert undone[1, 0] == module.UNDONE_BITS["invalid_utf8"]
    assert scores[[0, 3]].tolist() == clean.tolist()


def test_a_full_batch_is_taken_and_one_more_refused(client: Any) -> None:
    (scores,) = infer(client, "moderation", [b"hello"] * 1024, "SCORES")
    assert scores.shape == (1024, 4)
    with pytest.raises(InferenceServerException, match="1024"):
        infer(client, "moderation", [b"hello"] * 1025, "SCORES")


@pytest.mark.parametrize(
    ("disguised", "plain"),
    [
        ("cl\u200bick h\u2060ere for free casino bon\u00adus", "click here for free casino bonus"),
        ("сliсk hеrе fоr frее саsinо bоnus", "click here for free casino bonus"),
        ("ｃｌｉｃｋ here for 𝐟𝐫𝐞𝐞 casino 𝓫𝓸𝓷𝓾𝓼", "click here for free casino bonus"),
        ("c1ick h3re for fr33 cas1n0 b0nus", "click here for free casino bonus"),
        ("click here for freeeee casino bonusss", "click here for free casino bonus"),
        ("click here for free c a s i n o bonus", "click here for free casino bonus"),
        ("加 微 信 日赚三百元", "加微信日赚三百元"),
        ("加-微-信 日赚三百元", "加微信日赚三百元"),
        ("加\u200b微\u200b信日赚三百元", "加微信日赚三百元"),
        ("you s t u p i d idiot", "you stupid idiot"),
    ],
)
def test_a_disguised_text_scores_as_the_plain_one(client: Any, disguised: str, plain: str) -> None:
    scores, undone = infer(
        client, "moderation", [disguised.encode(), plain.encode()], "SCORES", "UNDONE"
    )
    assert scores[0].tolist() == scores[1].tolist()
    assert undone[0, 0] != 0
    assert undone[1, 0] == 0


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("good morning everyone, see you at the meeting", 0),
        ("大家晚上好，明天一起吃饭吗", 0),
        ("join online casino and get 200% bonus on your first deposit, instant withdrawal", 1),
        ("兼职刷单日结，每天300元，加微信abc8823", 1),
        ("you are a stupid worthless piece of shit", 2),
        ("你就是个傻逼，滚出去", 2),
        ("双11全场5折起，满300减50，速来抢购", 3),
    ],
)
def test_plain_cases_get_their_label(client: Any, text: str, label: int) -> None:
    (scores,) = infer(client, "moderation", [text.encode()], "SCORES")
    assert scores[0].argmax() == label


def test_no_logits_make_scores_that_are_not_finite(client: Any) -> None:
    odd = np.array(
        [[np.nan, 1, 2, 3], [np.inf, 0, 0, 0], [-np.inf] * 4, [1e30, -1e30, 0, 0], [0, 0, 0, 0]],
        dtype=np.float32,
    )
    tensor = triton_grpc.InferInput("logits", list(odd.shape), "FP32")
    tensor.set_data_from_numpy(odd)
    scores = client.infer("postprocess", [tensor], client_timeout=30).as_numpy("SCORES")
    assert np.isfinite(scores).all()
    assert scores.sum(axis=1) == pytest.approx(np.ones(len(odd)))
    assert scores[0].tolist() == [0.25] * 4
    assert scores[1].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_ids_of_any_size_give_finite_logits(client: Any) -> None:
    ids = np.array([[-5, 2**62, 0, 97], [1, 2, 3, 4]], dtype=np.int64)
    inputs = []
    for name, values in (("input_ids", ids), ("attention_mask", np.ones_like(ids))):
        inputs.append(triton_grpc.InferInput(name, list(ids.shape), "INT64"))
        inputs[-1].set_data_from_numpy(values)
    logits = client.infer("classifier", inputs, client_timeout=30).as_numpy("logits")
    assert logits.shape == (2, 4)
    assert np.isfinite(logits).all()


def test_requests_of_different_widths_are_answered_each(client: Any) -> None:
    texts = ["a" * length for length in (1, 50, 3, 700, 20)]
    one_by_one = [infer(client, "moderation", [t.encode()], "SCORES")[0][0] for t in texts]
    (together,) = infer(client, "moderation", [t.encode() for t in texts], "SCORES")
    assert [scores.tolist() for scores in one_by_one] == together.tolist()


def test_the_tokenizer_explains_itself_only_when_asked(client: Any) -> None:
    text = "fr\u200bee \u200bm\u043eney"
    plain = client.infer("tokenizer", [text_input([text.encode()])], outputs=None)
    normalized, offsets = infer(client, "tokenizer", [text.encode()], "NORMALIZED", "OFFSETS")
    assert plain.as_numpy("input_ids").shape == (1, len("free money"))
    assert normalized[0, 0].decode() == "free money"
    assert [text[i] for i in offsets[0]] == [*"free", " ", *"m\u043eney"]


def test_contributions_add_up_to_the_logits(client: Any) -> None:
    texts = [t.encode() for t in TEXTS if len(t) < 1_000]
    (contributions,) = infer(client, "explainer", texts, "CONTRIBUTIONS")
    (nothing,) = infer(client, "moderation", [b""], "SCORES")
    (scores,) = infer(client, "moderation", texts, "SCORES")
    logits = np.log(scores / scores[:, :1])
    offset = np.log(nothing / nothing[:, :1])
    assert contributions.sum(axis=1) + offset == pytest.approx(logits, abs=2e-3)


def test_contributions_stand_at_the_raw_characters(client: Any) -> None:
    text = "w\u200bin"
    (contributions,) = infer(client, "explainer", [text.encode()], "CONTRIBUTIONS")
    assert contributions.shape == (1, len(text), 4)
    assert (contributions[0, 1] == 0).all()
    assert (contributions[0, [0, 2, 3]] != 0).any(axis=1).all()
