package diff_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/audit/diff"
)

// order1k is a typical answer of a retail tool, about 1 kB, in the spacing of
// Python's json.dumps; the rehearsal gets a price and a status wrong.
func order1k(wrong bool) string {
	status, price := "pending", "46.6"
	if wrong {
		status, price = "processed", "48.0"
	}
	item := func(id, name, price string) string {
		return fmt.Sprintf(`{"name": %q, "product_id": "9523456873", "item_id": %q, "price": %s, `+
			`"options": {"capacity": "500ml", "material": "stainless steel", "color": "black"}}`, name, id, price)
	}
	return `{"order_id": "#W2611340", "user_id": "james_li_5688", "address": {"address1": "215 River Road", ` +
		`"address2": "Suite 991", "city": "New York", "country": "USA", "state": "NY", "zip": "10083"}, "items": [` +
		item("6469567736", "Water Bottle", price) + ", " + item("8426249116", "Desk Lamp", "19.99") + ", " +
		item("1421289881", "Notebook", "5") + `], "fulfillments": [{"tracking_id": ["358223295599"], ` +
		`"item_ids": ["6469567736", "8426249116"]}], "status": "` + status + `", "payment_history": [` +
		`{"transaction_type": "payment", "amount": 71.59, "payment_method_id": "gift_card_1725971"}], "note": null, "gift": false}`
}

func typicalRules(tb testing.TB) *diff.Rules {
	tb.Helper()
	return rules(tb, indent("/order_id: key\n/status: enum\n/items: {array: keyed, fields: [item_id]}\n"+
		"/items/*/price: {rule: number, abs: 0.01}\n/note: text\n/payment_history/*/amount: {rule: number, rel: 1e-6}"))
}

// BenchmarkTypical compares two answers of about 1 kB, decoding included. The
// aim is 30 µs and 16 kB.
func BenchmarkTypical(b *testing.B) {
	realText, rehearsedText := []byte(order1k(false)), []byte(order1k(true))
	for name, r := range map[string]*diff.Rules{"exact": nil, "policy": typicalRules(b)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(realText) + len(rehearsedText)))
			loop(b, func() { compareTexts(b, r, realText, rehearsedText) })
		})
	}
}

func compareTexts(tb testing.TB, r *diff.Rules, realText, rehearsedText []byte) diff.Comparison {
	tb.Helper()
	x, err := diff.Decode(realText, diff.DefaultLimits())
	if err != nil {
		tb.Fatal(err)
	}
	y, err := diff.Decode(rehearsedText, diff.DefaultLimits())
	if err != nil {
		tb.Fatal(err)
	}
	return diff.Compare(r, x, y, nil)
}

// BenchmarkAgainstGoCmp gives the ratio to go-cmp with a reporter over values of
// encoding/json, on the same texts, in the same run, in blocks by turns. It is
// asked for the same judgement: 25 and 25.0 are one number. The aim is 10. Times are of the processor, collecting garbage included, so that a busy
// machine does not decide.
func BenchmarkAgainstGoCmp(b *testing.B) {
	const block = 50
	realText, rehearsedText := []byte(order1k(false)), []byte(order1k(true))
	decimals := cmp.Comparer(func(x, y json.Number) bool {
		if x == y {
			return true
		}
		a, okA := new(big.Rat).SetString(string(x))
		b, okB := new(big.Rat).SetString(string(y))
		return okA && okB && a.Cmp(b) == 0
	})
	var ours, theirs time.Duration
	for b.Loop() {
		start := processorTime(b)
		for range block {
			if c := compareTexts(b, nil, realText, rehearsedText); len(c.Differences) != 2 {
				b.Fatal(c.Explain())
			}
		}
		middle := processorTime(b)
		for range block {
			var reporter pathReporter
			cmp.Equal(usingNumbers(b, realText), usingNumbers(b, rehearsedText), decimals, cmp.Reporter(&reporter))
			if len(reporter.pointers) != 2 {
				b.Fatal(reporter.pointers)
			}
		}
		ours += middle - start
		theirs += processorTime(b) - middle
	}
	runs := float64(b.N * block)
	b.ReportMetric(float64(theirs)/float64(ours), "x_go-cmp")
	b.ReportMetric(float64(ours)/1e3/runs, "cpu_us_ours")
	b.ReportMetric(float64(theirs)/1e3/runs, "cpu_us_go-cmp")
	b.ReportMetric(0, "ns/op")
}

// loop runs a benchmark and reports its processor time beside its wall time: on a
// busy machine only the first means something.
func loop(b *testing.B, run func()) {
	b.Helper()
	b.ReportAllocs()
	start := processorTime(b)
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(processorTime(b)-start)/1e3/float64(b.N), "cpu_us/op")
}

// processorTime is what the process has used so far.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func usingNumbers(tb testing.TB, text []byte) (v any) {
	tb.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		tb.Fatal(err)
	}
	return v
}

// objects is a list of n objects in a shuffled order; bonus is added to every
// third price, or to every one with all.
func objects(n int, seed uint64, bonus int, all bool) string {
	order := rand.New(rand.NewPCG(seed, seed)).Perm(n)
	var out strings.Builder
	for _, i := range order {
		price := i
		if all || i%3 == 0 {
			price += bonus
		}
		fmt.Fprintf(&out, `,{"id":%d,"name":"item %d","price":%d,"tags":["a","b%d"]}`, i, i, price, i%7)
	}
	return "[" + out.String()[1:] + "]"
}

// BenchmarkShuffled compares 1,000 shuffled objects, decoded before. The aim is
// 20 ms.
func BenchmarkShuffled(b *testing.B) {
	for _, mode := range []string{"{array: multiset}", "{array: keyed, fields: [id]}"} {
		for name, bonus := range map[string]int{"same": 0, "third_changed": 5} {
			b.Run(strings.Trim(strings.Fields(mode)[1], ",}")+"/"+name, func(b *testing.B) {
				r := rules(b, indent(`"": `+mode))
				x, y := decode(b, objects(1000, 1, 0, false)), decode(b, objects(1000, 2, bonus, false))
				loop(b, func() { diff.Compare(r, x, y, nil) })
			})
		}
	}
}

// BenchmarkKeyedAllChanged compares 400 shuffled objects of which every one has a
// changed field. The aim is 50 ms.
func BenchmarkKeyedAllChanged(b *testing.B) {
	r := rules(b, `    "": {array: keyed, fields: [id]}`)
	x, y := decode(b, objects(400, 1, 0, true)), decode(b, objects(400, 2, 1, true))
	loop(b, func() {
		if c := diff.Compare(r, x, y, nil); len(c.Differences) != 400 {
			b.Fatal(len(c.Differences))
		}
	})
}

// BenchmarkInts compares 10,000 integers with one change, decoding included. The
// aim is 20 ms.
func BenchmarkInts(b *testing.B) {
	x, y := []byte(bigText("<10000 ints>")), []byte(bigText("<10000 ints, one changed>"))
	loop(b, func() {
		if c := compareTexts(b, nil, x, y); len(c.Differences) != 1 {
			b.Fatal(len(c.Differences))
		}
	})
}

// BenchmarkGrowth shows that time is near-linear: processor time per leaf from 10² to 10⁵
// leaves, for a list of objects with one change in each hundred.
func BenchmarkGrowth(b *testing.B) {
	for _, mode := range []string{"ordered", "multiset", "keyed, fields: [id]"} {
		r := rules(b, indent(`"": {array: `+mode+`}`))
		for _, leaves := range []int{100, 1000, 10_000, 100_000} {
			n := leaves / 5
			x, y := grown(b, n, 0), grown(b, n, 1)
			b.Run(fmt.Sprintf("%s/%d", strings.Trim(strings.Fields(mode)[0], ","), leaves), func(b *testing.B) {
				start := processorTime(b)
				for b.Loop() {
					diff.Compare(r, x, y, nil)
				}
				used := processorTime(b) - start
				b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/float64(leaves), "cpu_ns/leaf")
			})
		}
	}
}

func grown(tb testing.TB, n, bonus int) diff.Value {
	tb.Helper()
	var out strings.Builder
	for i := range n {
		price := i
		if i%100 == 50 {
			price += bonus
		}
		fmt.Fprintf(&out, `,{"id":%d,"name":"item %d","price":%d,"tags":["a","b%d"]}`, i, i, price, i%7)
	}
	v, err := diff.Decode([]byte("["+out.String()[1:]+"]"), diff.Limits{Bytes: 1 << 26, Leaves: 1 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// BenchmarkDecode shows the decoder alone, in bytes a second.
func BenchmarkDecode(b *testing.B) {
	text := []byte(order1k(false))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := diff.Decode(text, diff.DefaultLimits()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHash shows the canonical hash of a typical answer.
func BenchmarkHash(b *testing.B) {
	v := decode(b, order1k(false))
	b.ReportAllocs()
	for b.Loop() {
		diff.Hash(v)
	}
}

// BenchmarkDelta shows the canonical patch between two states of 1,000 objects.
func BenchmarkDelta(b *testing.B) {
	x, y := grown(b, 1000, 0), grown(b, 1000, 1)
	b.ReportAllocs()
	for b.Loop() {
		diff.Diff(x, y)
	}
}
