"""Every client in a loop that calls it as its trainer does, against a live service.

The service is named by ``UNDERSTUDY_URL``; ``UNDERSTUDY_CASES`` is a JSON file of
calls with the answers that the sandbox really gives: ``[{"call", "history",
"truth", "refused"}]``.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import types
import unittest
import urllib.request
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from understudy_rewards import Client, ServiceError, openrlhf, rllm, score_texts, skyrl, slime, trl, verl

URL = os.environ["UNDERSTUDY_URL"]
with open(os.environ["UNDERSTUDY_CASES"], encoding="utf-8") as file:
    CASES = json.load(file)
LIE = '{"done": true, "made_up": [1, 2, 3]}'


def place(case: dict[str, Any], episode: str, **members: Any) -> dict[str, Any]:
    """The place of a case, in an episode of its own test."""
    return {
        "environment": "retail-mini@1",
        "history": [{"call": call} for call in case["history"]],
        "call": case["call"],
        "episode": episode,
        "policy": "tested",
        **members,
    }


def post(path: str, body: Any) -> Any:
    """What a trainer's own HTTP call gets."""
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)


class ClientTest(unittest.TestCase):
    """The client itself."""

    def test_scores_and_repeats(self) -> None:
        client = Client(policy="tested")
        outputs = [{**place(c, "client"), "rehearsal": c["truth"]} for c in CASES]
        for output in outputs:
            del output["policy"]
        first = client.score(outputs, checkpoint=7)
        self.assertTrue(all(s["status"] == "scored" and s["phi"] == 1 for s in first), first)
        again = client.score(outputs, checkpoint=7)
        self.assertTrue(all(s["repeated"] for s in again))
        self.assertEqual([s["term"] for s in first], [s["term"] for s in again])

    def test_refusals_name_the_fault(self) -> None:
        with self.assertRaises(ServiceError) as caught:
            Client().score([{"environment": "retail-mini@1", "call": {"tool": ""}, "rehearsal": ""}])
        self.assertEqual(caught.exception.status, 422)
        self.assertIn("call.tool", str(caught.exception))
        with self.assertRaises(ServiceError) as caught:
            Client(url="http://127.0.0.1:9", retries=0).score([{}])
        self.assertEqual(caught.exception.status, 0)


    def test_places_name_their_batches(self) -> None:
        asked: list[tuple[Any, ...]] = []

        class Recorder(Client):
            def score(self, outputs: Any, checkpoint: int = 0, policy: Any = None, run: Any = None) -> list[Any]:
                asked.append((len(outputs), checkpoint, policy, run))
                return [{"text": o["rehearsal"]} for o in outputs]

        places = [place(CASES[0], "b", run="x"), place(CASES[0], "b", run="y"), place(CASES[0], "b", run="x")]
        scores = score_texts(Recorder(), places, ["1", "2", "3"], 5)
        self.assertEqual([s["text"] for s in scores], ["1", "2", "3"])
        self.assertEqual(asked, [(2, 5, "tested", "x"), (1, 5, "tested", "y")])


class VerlTest(unittest.TestCase):
    """compute_score, as NaiveRewardManager and the asynchronous loop call it."""

    def test_compute_score(self) -> None:
        keys = None
        for i, case in enumerate(CASES):
            for text, good in ((case["truth"], True), (LIE, False)):
                result = verl.compute_score(
                    data_source="retail",
                    solution_str=text,
                    ground_truth=None,
                    extra_info={"index": i, "understudy": json.dumps(place(case, "verl"))},
                    url=URL,
                )
                self.assertEqual(result["phi"] == 1, good, result)
                self.assertIsInstance(result["score"], float)
                keys = keys or set(result)
                self.assertEqual(set(result), keys)  # verl wants the same members for all samples
                self.assertEqual(result["false_success"] == 1, case["refused"] and not good)

    def test_asynchronous(self) -> None:
        self.assertTrue(inspect.iscoroutinefunction(verl.compute_score_async))

        async def loop() -> list[dict[str, float]]:
            return await asyncio.gather(
                *(
                    verl.compute_score_async(
                        data_source="retail", solution_str=c["truth"], ground_truth=place(c, "verl-async"), extra_info={}
                    )
                    for c in CASES
                )
            )

        self.assertTrue(all(r["phi"] == 1 for r in asyncio.run(loop())))


class TRLTest(unittest.TestCase):
    """reward_funcs, as GRPOTrainer calls them."""

    def test_reward_func(self) -> None:
        logged: dict[str, float] = {}
        places = [place(c, "trl") for c in CASES] + [place(CASES[0], "trl", role="act")]
        completions = [[{"role": "assistant", "content": c["truth"]}] for c in CASES] + [[{"role": "assistant", "content": "x"}]]
        rewards = trl.calibration_reward(
            prompts=["p"] * len(places),
            completions=completions,
            completion_ids=[[1]] * len(places),
            understudy=places,
            trainer_state=types.SimpleNamespace(global_step=3),
            log_extra=lambda column, values: None,
            log_metric=lambda name, value: logged.update({name: value}),
        )
        self.assertIsNone(rewards[-1], "what has no verdict is None, never 0")
        self.assertTrue(all(isinstance(r, float) and r > 0 for r in rewards[:-1]), rewards)
        self.assertAlmostEqual(logged["calibration/masked"], 1 / len(places))


class OpenRLHFTest(unittest.TestCase):
    """The remote URL, and the function in process."""

    def test_remote_url(self) -> None:
        for case in CASES:
            reply = post(
                "/v1/score/openrlhf",
                {"query": ["prompt:" + case["truth"]], "prompts": ["prompt:"], "labels": [json.dumps(place(case, "openrlhf"))]},
            )
            self.assertIsInstance(reply["rewards"], (int, float))
            self.assertGreater(reply["rewards"], 0)
            self.assertEqual(reply["scores"], 1)
            self.assertEqual(reply["extra_logs"]["masked"], 0)

    def test_masked_is_marked(self) -> None:
        reply = post(
            "/v1/score/openrlhf", {"query": ["x"], "prompts": [""], "labels": [place(CASES[0], "openrlhf-act", role="act")]}
        )
        self.assertEqual((reply["rewards"], reply["scores"], reply["extra_logs"]["masked"]), (0, 0.5, 1))

    def test_in_process(self) -> None:
        result = openrlhf.reward_func(
            ["q" + c["truth"] for c in CASES], ["q"] * len(CASES), [json.dumps(place(c, "openrlhf-local")) for c in CASES]
        )
        self.assertEqual(len(list(result["rewards"])), len(CASES))
        self.assertTrue(all(float(x) == 1 for x in result["scores"]))
        with self.assertRaises(ValueError):  # scored whole, it would be a false rehearsal
            openrlhf.reward_func(["<s>q{}"], ["q"], [place(CASES[0], "openrlhf-local")])


class SlimeTest(unittest.TestCase):
    """custom_rm on one sample and on a list, and remote_rm."""

    @staticmethod
    def sample(case: dict[str, Any], **members: Any) -> types.SimpleNamespace:
        return types.SimpleNamespace(
            prompt="p", response=case["truth"], label=json.dumps(place(case, "slime", **members)), metadata={}, remove_sample=False
        )

    def test_custom_rm(self) -> None:
        args = types.SimpleNamespace(reward_key=None)
        one = asyncio.run(slime.custom_rm(args, self.sample(CASES[0])))
        self.assertGreater(one, 0)
        samples = [self.sample(c) for c in CASES] + [self.sample(CASES[0], role="act")]
        rewards = asyncio.run(slime.custom_rm(args, samples))
        self.assertEqual([s.remove_sample for s in samples], [False] * len(CASES) + [True])
        self.assertTrue(all(isinstance(r, float) for r in rewards))
        keyed = asyncio.run(slime.custom_rm(types.SimpleNamespace(reward_key="term"), self.sample(CASES[0])))
        self.assertEqual(keyed["term"], one)

    def test_remote_rm(self) -> None:
        body = {"prompt": "p", "response": CASES[0]["truth"], "label": json.dumps(place(CASES[0], "slime-remote"))}
        self.assertIsInstance(post("/v1/score/slime", body), (int, float))
        self.assertEqual(post("/v1/score/slime?full=1", body)["phi"], 1)


class SkyRLTest(unittest.TestCase):
    """The environment, as SkyRL's generator drives it."""

    def test_environment(self) -> None:
        env = skyrl.RehearsalEnv({"url": URL}, extras={"understudy": place(CASES[0], "skyrl")})
        prompt, meta = env.init([{"role": "user", "content": "p"}])
        self.assertEqual((prompt[0]["content"], meta), ("p", {}))
        out = env.step(CASES[0]["truth"])
        self.assertEqual((out["observations"], out["done"], out["metadata"]["phi"]), ([], True, 1))
        self.assertGreater(out["reward"], 0)
        env.close()


class RLLMTest(unittest.TestCase):
    """The evaluator, as rLLM calls it with an episode."""

    def test_evaluate(self) -> None:
        steps = [types.SimpleNamespace(info={"understudy": place(c, "rllm")}, model_response=c["truth"], reward=0.0) for c in CASES]
        episode = types.SimpleNamespace(
            trajectories=[
                types.SimpleNamespace(name="rehearse", steps=steps),
                types.SimpleNamespace(name="act", steps=[types.SimpleNamespace(info={}, model_response="x", reward=0.25)]),
            ]
        )
        found = rllm.CalibrationEvaluator().evaluate({"id": 1}, episode)
        self.assertTrue(found.is_correct)
        self.assertGreater(found.reward, 0)
        self.assertTrue(all(s.reward > 0 for s in steps))
        self.assertEqual({s.name: s.value for s in found.signals}["phi"], 1)
        self.assertEqual(episode.trajectories[1].steps[0].reward, 0.25)


class NeMoGymTest(unittest.TestCase):
    """The resources server, as an agent and a rollout collector call it."""

    def test_rehearsal(self) -> None:
        task = {"understudy": place(CASES[0], "gym"), "id": 5}
        message = {"type": "message", "content": [{"type": "output_text", "text": CASES[0]["truth"]}]}
        verified = post("/gym/verify", {**task, "responses_create_params": {"input": []}, "response": {"output": [message]}})
        self.assertEqual((verified["id"], verified["reward_components"]["phi"]), (5, 1))
        self.assertGreater(verified["reward"], 0)
        summed = post("/gym/aggregate_metrics", {"verify_responses": [{**verified, "_ng_task_index": 0}] * 2})
        self.assertEqual(summed["key_metrics"]["mean/reward"], verified["reward"])
        self.assertEqual(summed["group_level_metrics"][0]["_ng_task_index"], 0)

    def test_session(self) -> None:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())

        def call(path: str, body: Any) -> Any:
            request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            with opener.open(request, timeout=300) as response:
                return json.load(response)

        call("/gym/seed_session", {"environment": "retail-mini@1"})
        case = CASES[0]
        arguments = case["call"]["arguments"]
        self.assertEqual(call("/gym/mcp__shop__" + case["call"]["tool"], arguments), json.loads(case["truth"]))


if __name__ == "__main__":
    unittest.main()
