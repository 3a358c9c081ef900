package trace

import (
	"encoding/json"
	"strings"
)

// reader turns the records of one format into episodes. read and flush report
// through the sink; a record that they cannot use is skipped with a reason.
type reader interface {
	read(rec record, s *sink)
	flush(s *sink) // after the last record
}

// recordReader is a reader whose episodes never span records.
type recordReader func(rec record, s *sink)

func (f recordReader) read(rec record, s *sink) { f(rec, s) }
func (recordReader) flush(*sink)                {}

// The names of the formats.
const (
	formatOpenAI    = "openai"
	formatResponses = "responses"
	formatATIF      = "atif"
	formatTau2      = "tau2"
	formatEnvScaler = "envscaler"
	formatOpenEnv   = "openenv"
	formatBFCL      = "bfcl"
	formatToucan    = "toucan"
	formatToolACE   = "toolace"
	formatAPIBank   = "apibank"
	formatInspect   = "inspect"
	formatOTel      = "otel"
	formatRecording = "recording"
)

// Formats lists the trajectory formats that Import reads.
func Formats() []string {
	return []string{
		formatOpenAI, formatResponses, formatATIF, formatTau2, formatEnvScaler, formatOpenEnv, formatBFCL,
		formatToucan, formatToolACE, formatAPIBank, formatInspect, formatOTel, formatRecording,
	}
}

func newReader(format string) reader {
	switch format {
	case formatOpenAI, formatToucan:
		return recordReader(readChat)
	case formatResponses:
		return recordReader(readResponses)
	case formatATIF:
		return recordReader(readATIF)
	case formatTau2:
		return recordReader(readTau2)
	case formatEnvScaler:
		return recordReader(readEnvScaler)
	case formatOpenEnv:
		return recordReader(readOpenEnv)
	case formatBFCL:
		return recordReader(readBFCL)
	case formatToolACE:
		return recordReader(readToolACE)
	case formatAPIBank:
		return &apiBank{}
	case formatOTel:
		return &otelSpans{byGroup: map[string][]otelSpan{}}
	case formatRecording:
		return &recording{}
	default:
		return nil
	}
}

// detect names the format of a file by its first record, or "".
func detect(body json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return ""
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := fields[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case strings.HasPrefix(text(fields["schema_version"]), "ATIF"):
		return formatATIF
	case has("responses_create_params"), has("response", "output"), has("output", "input"):
		return formatResponses
	case has("simulations"), has("task_id", "termination_reason", "messages"):
		return formatTau2
	case has("tool_trace"):
		return formatOpenEnv
	case has("trajectory"):
		return formatEnvScaler
	case has("inference_log"):
		return formatBFCL
	case has("resourceSpans"), has("resource_spans"):
		return formatOTel
	case has("conversations"):
		return formatToolACE
	case has("messages", "available_tools"), has("uuid", "messages"):
		return formatToucan
	case has("messages"):
		return formatOpenAI
	case has("episode", "tool", "content"):
		return formatRecording
	case has("role", "text"), has("role", "api_name"):
		return formatAPIBank
	default:
		return ""
	}
}
