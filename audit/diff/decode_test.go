package diff_test

import (
	"errors"
	"strings"
	"testing"

	"understudy/audit/diff"
)

// decode is Decode under the default limits for texts that must be good.
func decode(tb testing.TB, text string) diff.Value {
	tb.Helper()
	v, err := diff.Decode([]byte(text), diff.DefaultLimits())
	if err != nil {
		tb.Fatalf("decode %.80s: %v", text, err)
	}
	return v
}

func TestDecode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text, want string // want is the canonical text
		reason     string
	}{
		{` {"b" : 1 , "a":[ true,false,null ]} `, `{"a":[true,false,null],"b":1}`, "members are kept by name"},
		{`{"a":2,"a":1}`, `{"a":1}`, "the last duplicate wins"},
		{`"\ud83d"`, `"\ud83d"`, "a lone surrogate survives"},
		{`"\ude00\ud83d"`, `"\ude00\ud83d"`, "two surrogates in the wrong order are two"},
		{`"\ud83d\ude00"`, `"😀"`, "a pair is one rune"},
		{`"a\u0000b"`, `"a\u0000b"`, "NUL survives"},
		{`"\u00e9\n\/\\\""`, `"é\n/\\\""`, "escapes are decoded and written in their shortest form"},
		{`-0.0e-0`, `-0.0e-0`, "the spelling of a number is kept"},
		{`1e400`, `1e400`, "the limit of the exponent is inclusive"},
		{`{"":{"":[]}}`, `{"":{"":[]}}`, "empty names are names"},
	}
	for _, tt := range tests {
		if got := decode(t, tt.text).String(); got != tt.want {
			t.Errorf("%s: got %s, want %s: %s", tt.text, got, tt.want, tt.reason)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100_000)
	tests := []struct {
		text   string
		want   diff.DecodeClass
		reason string
	}{
		{"  ", diff.ClassEmpty, "white space is no value"},
		{`{"a":1,"b":`, diff.ClassTruncated, "a cut body is told apart from nonsense"},
		{`{"a":1`, diff.ClassTruncated, "cut before a comma"},
		{`"abc`, diff.ClassTruncated, "cut in a string"},
		{`"abc\`, diff.ClassTruncated, "cut in an escape"},
		{`"abc\u12`, diff.ClassTruncated, "cut in a unicode escape"},
		{`tru`, diff.ClassTruncated, "cut in a literal"},
		{`-`, diff.ClassTruncated, "cut in a number"},
		{`1.`, diff.ClassTruncated, "cut after the point"},
		{`{'a':1}`, diff.ClassSyntax, "single quotes"},
		{`[1,]`, diff.ClassSyntax, "trailing comma"},
		{`01`, diff.ClassTrailing, "leading zero"},
		{`{} {}`, diff.ClassTrailing, "two values"},
		{`{"a":"x` + "\n" + `"}`, diff.ClassSyntax, "raw line feed in a string"},
		{"\"\xff\"", diff.ClassEncoding, "not UTF-8"},
		{"\"\xed\xa0\xbd\"", diff.ClassEncoding, "a surrogate as raw bytes is not UTF-8"},
		{`{"a":NaN}`, diff.ClassNonFinite, "NaN is classified, not accepted"},
		{`[-Infinity]`, diff.ClassNonFinite, "so is minus infinity"},
		{`{"a":NaN`, diff.ClassTruncated, "a cut body is cut, NaN or not"},
		{`1e400000000`, diff.ClassOversizeExponent, "a hostile exponent is never computed"},
		{`1e-401`, diff.ClassOversizeExponent, "small ones too"},
		{deep, diff.ClassOversizeDepth, "no stack overflow"},
		{`[` + strings.Repeat("1,", 50_000) + `1]`, diff.ClassOversizeLeaves, "one leaf too many"},
		{`"` + strings.Repeat("x", 1<<20) + `"`, diff.ClassOversizeBytes, "one mebibyte and two bytes"},
	}
	for _, tt := range tests {
		_, err := diff.Decode([]byte(tt.text), diff.DefaultLimits())
		failure, ok := errors.AsType[*diff.DecodeError](err)
		if !ok || failure.Class != tt.want {
			t.Errorf("%.40q: got %v, want %s: %s", tt.text, err, tt.want, tt.reason)
		}
	}
}

func TestNormalise(t *testing.T) {
	t.Parallel()
	tests := []struct {
		raw, want string
		encodings []diff.Encoding
		reason    string
	}{
		{`{"ok":true}`, `{"ok":true}`, nil, "plain JSON has no tag"},
		{
			`{'ok': True, 'x': None, 'it\'s': "a", 1: (1, -2.5,)}`, `{"1":[1,-2.5],"it's":"a","ok":true,"x":null}`,
			[]diff.Encoding{diff.EncodingPython},
			"Python's repr",
		},
		{`"{\"a\":1}"`, `{"a":1}`, []diff.Encoding{diff.EncodingJSONString}, "JSON in a JSON string"},
		{
			`{"content":[{"type":"text","text":"{\"a\":1}"}],"isError":false}`, `{"a":1}`,
			[]diff.Encoding{diff.EncodingMCP},
			"an MCP result around JSON",
		},
		{
			`{"content":[{"type":"text","text":"not found"}],"isError":true}`, `"not found"`,
			[]diff.Encoding{diff.EncodingMCP},
			"an MCP result around text",
		},
		{`"{'a': 'ż'}"`, `{"a":"ż"}`, []diff.Encoding{diff.EncodingJSONString, diff.EncodingPython}, "two layers"},
		{`Error: Order not found`, `"Error: Order not found"`, []diff.Encoding{diff.EncodingErrorText}, "error text"},
		{`yusuf_rossi_9620`, `"yusuf_rossi_9620"`, []diff.Encoding{diff.EncodingText}, "bare text"},
		{`None of these`, `"None of these"`, []diff.Encoding{diff.EncodingText}, "prose that begins like a constant"},
		{`True`, `true`, []diff.Encoding{diff.EncodingPython}, "a bare constant"},
		{`"hello"`, `"hello"`, nil, "a string is a string"},
		{"\xEF\xBB\xBF{}", `{}`, []diff.Encoding{diff.EncodingBOM}, "byte order mark"},
		{
			`{"content":[{"type":"text","text":"x"}],"id":1}`, `{"content":[{"text":"x","type":"text"}],"id":1}`, nil,
			"an object with more members is no MCP result",
		},
	}
	for _, tt := range tests {
		n, err := diff.Normalise([]byte(tt.raw), diff.DefaultLimits())
		if err != nil {
			t.Errorf("%s: %v: %s", tt.raw, err, tt.reason)
			continue
		}
		if got := n.Value.String(); got != tt.want {
			t.Errorf("%s: got %s, want %s: %s", tt.raw, got, tt.want, tt.reason)
		}
		if len(n.Encodings) != len(tt.encodings) {
			t.Errorf("%s: got tags %v, want %v: %s", tt.raw, n.Encodings, tt.encodings, tt.reason)
			continue
		}
		for i := range tt.encodings {
			if n.Encodings[i] != tt.encodings[i] {
				t.Errorf("%s: got tags %v, want %v: %s", tt.raw, n.Encodings, tt.encodings, tt.reason)
			}
		}
	}
}

func TestNormaliseRefuses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]diff.DecodeClass{
		`{"a":1,"b":`:  diff.ClassTruncated, // never prose
		`{'a': nan}`:   diff.ClassNonFinite,
		`{'a': set()}`: diff.ClassSyntax,
		``:             diff.ClassEmpty,
	} {
		_, err := diff.Normalise([]byte(raw), diff.DefaultLimits())
		if failure, ok := errors.AsType[*diff.DecodeError](err); !ok || failure.Class != want {
			t.Errorf("%s: got %v, want %s", raw, err, want)
		}
	}
}
