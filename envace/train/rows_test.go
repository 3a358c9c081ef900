package train_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/train"
	"understudy/gpu/tokenizer"
)

// trajectory makes outputs of random ids. Most prompts begin with all that came
// before, as in the tiny format; some begin anew, as when a chat template drops what
// was thought. The ids are no tokenizer's: nothing could write them again from text.
func trajectory(random *rand.Rand) []*envace.Output {
	tokens := func(n int) []int32 {
		out := make([]int32, n)
		for i := range out {
			out[i] = random.Int32N(7)
		}
		return out
	}
	var outputs []*envace.Output
	var before []int32
	for i := range 1 + random.IntN(6) {
		if random.IntN(4) == 0 {
			before = tokens(random.IntN(20))
		}
		role := []audit.PolicyRole{audit.ActRole, audit.RehearseRole}[i%2]
		o := &envace.Output{Role: role, Prompt: append(slices.Clone(before), tokens(1+random.IntN(4))...), Tokens: tokens(1 + random.IntN(6))}
		before = append(slices.Clone(o.Prompt), o.Tokens...)
		outputs = append(outputs, o)
	}
	return outputs
}

// Traps 1 and 2 of facts/envace.md, section 6: the tokens that carry loss are exactly
// those that were sampled, by outputs of the trained role, each once, as the very ids,
// and conditioned on the very prompt that the engine read.
func TestTrap01And02LossIsOnSampledTokens(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // reproducible
		outputs := trajectory(random)
		frozen := []audit.PolicyRole{"", audit.ActRole, audit.RehearseRole}[random.IntN(3)]
		keep := func(i int) bool { return outputs[i].Role != frozen }
		batches, targets, err := train.Packed(outputs, 40+random.IntN(200), keep)
		if err != nil && len(batches) == 0 {
			continue // a row over the limit is an error, never cut
		}
		var want []train.Target
		for i, o := range outputs {
			for j, token := range o.Tokens {
				if keep(i) {
					want = append(want, train.Target{Output: i, Conditioned: append(slices.Clone(o.Prompt), o.Tokens[:j]...), Token: token})
				}
			}
		}
		if !slices.EqualFunc(targets, want, func(a, b train.Target) bool {
			return a.Output == b.Output && a.Token == b.Token && slices.Equal(a.Conditioned, b.Conditioned)
		}) {
			t.Fatalf("seed %d, frozen %q:\n got %v\nwant %v", seed, frozen, targets, want)
		}
	}
}

// Trap 2: what was sampled is trained on as the ids that were sampled, also where the
// tokenizer would write the text otherwise.
func TestTrap02NonCanonicalTokensStay(t *testing.T) {
	t.Parallel()
	words, err := tokenizer.Load("../../gpu/tokenizer/testdata/qwen2.json")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // reproducible
	different := 0
	for range 100 {
		ids := make([]int32, 1+random.IntN(12)) // among them pieces that a merge would have joined, as "HAV" and "ING"
		for i := range ids {
			ids[i] = random.Int32N(int32(words.Size()))
		}
		if !slices.Equal(words.Encode(words.Decode(ids, false)), ids) {
			different++
		}
		output := &envace.Output{Role: audit.ActRole, Prompt: words.Encode("<tool_call>"), Tokens: ids, Text: words.Decode(ids, false)}
		_, targets, err := train.Packed([]*envace.Output{output}, 100, func(int) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		for i, target := range targets {
			if target.Token != ids[i] || len(targets) != len(ids) {
				t.Fatalf("sampled %v, trained on %v", ids, targets)
			}
		}
	}
	if different < 50 {
		t.Errorf("%d of 100 texts are written otherwise: the test says little", different)
	}
}

func TestDynamicSamplingKeepsGroupsThatTeach(t *testing.T) {
	t.Parallel()
	good, bad, unknown := envace.Grade{Reward: 1}, envace.Grade{}, envace.Grade{Unknown: true}
	tests := []struct {
		grades []envace.Grade
		kept   bool
		reason string
	}{
		{[]envace.Grade{good, good, bad}, true, "rewards differ"},
		{[]envace.Grade{good, good}, false, "equal rewards have no advantage"},
		{[]envace.Grade{good, unknown, good}, false, "nor have they with one that is not known, which leaves the group"},
		{[]envace.Grade{unknown, good, bad}, true, "the known ones differ"},
		{[]envace.Grade{unknown, unknown}, false, "nothing is known"},
	}
	for _, test := range tests {
		if got := train.Differ(test.grades...); got != test.kept {
			t.Errorf("%s: kept %v", test.reason, got)
		}
	}
}
