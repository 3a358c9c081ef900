package audit

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// Inference maps error codes and texts to families, for answers that do not
// name the family themselves. The zero value knows nothing; DefaultInference is
// the table that every tool starts from.
type Inference struct {
	codes map[string]Family
	texts []textRule
}

type textRule struct {
	match  *regexp.Regexp
	family Family
}

// With returns the table with further codes and text rules in front of its own.
func (t Inference) With(codes map[string]Family, texts []TextRule) (Inference, error) {
	merged := Inference{codes: make(map[string]Family, len(t.codes)+len(codes))}
	maps.Copy(merged.codes, t.codes)
	for code, family := range codes {
		merged.codes[normalCode(code)] = family
	}
	for _, rule := range texts {
		match, err := regexp.Compile("(?i)" + rule.Match)
		if err != nil {
			return Inference{}, fmt.Errorf("text rule %q: %w", rule.Match, err)
		}
		merged.texts = append(merged.texts, textRule{match, rule.Family})
	}
	merged.texts = append(merged.texts, t.texts...)
	return merged, nil
}

// TextRule gives a family to the error texts that an RE2 expression matches,
// upper and lower case alike.
type TextRule struct {
	Match  string `yaml:"match"`
	Family Family `yaml:"family"`
}

// Code is the family of an error code: a family's own name, a code of JSON-RPC,
// HTTP or gRPC, an exception's name, a code of the EnvACE simulator.
func (t Inference) Code(code string) (Family, bool) {
	family, ok := t.codes[normalCode(code)]
	if ok {
		return family, true
	}
	if status, err := strconv.Atoi(strings.TrimSpace(code)); err == nil {
		return familyOfStatus(status)
	}
	return "", false
}

// Text is the family of an error text. A text that no rule matches is taken for
// a business rule's refusal: it is what an unnamed domain error most often is.
func (t Inference) Text(text string) Family {
	for _, rule := range t.texts {
		if rule.match.MatchString(text) {
			return rule.family
		}
	}
	return Precondition
}

// normalCode makes NOT_FOUND, not-found, NotFound and "not found" one word.
func normalCode(code string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(code) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' && b.Len() == 0 {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// familyOfStatus reads an HTTP status of 400 or more.
func familyOfStatus(status int) (Family, bool) {
	switch status {
	case 400, 405, 406, 411, 415, 422:
		return SchemaInvalid, true
	case 401, 407:
		return Authentication, true
	case 403, 451:
		return Authorization, true
	case 404, 410:
		return NotFound, true
	case 409:
		return Conflict, true
	case 402, 412, 423, 424, 428:
		return Precondition, true
	case 413, 414, 429, 431:
		return Limit, true
	case 408, 425, 502, 503, 504:
		return Transient, true
	}
	switch {
	case status >= 400 && status < 500:
		return Precondition, true
	case status >= 500 && status < 600:
		return Internal, true
	}
	return "", false
}

// DefaultInference is the table for the codes and texts that backends, servers
// and simulators are known to use. The order of the texts matters: the first
// match decides.
func DefaultInference() Inference {
	codes := make(map[string]Family, 64)
	for family, names := range knownCodes() {
		codes[normalCode(string(family))] = family
		for _, name := range names {
			codes[normalCode(name)] = family
		}
	}
	table, err := Inference{codes: codes}.With(nil, knownTexts())
	if err != nil {
		panic(err) // a programmer's error in the table below
	}
	return table
}

func knownCodes() map[Family][]string {
	return map[Family][]string{
		MalformedCall: {
			"INVALID_TOOL_CALL_FORMAT", "JSON_DECODE_ERROR", "NO_TOOL_CALL_FOUND", "NO_ARGUMENTS",
			"NON_SERIALIZABLE_ARGUMENTS", "PARSE_ERROR", "-32700", "-32600", "JSONDecodeError",
		},
		UnknownTool: {
			"TOOL_NOT_AVAILABLE", "INVALID_TOOL_NAME", "TOOL_NOT_FOUND", "METHOD_NOT_FOUND", "UNIMPLEMENTED",
			"NOT_IMPLEMENTED", "-32601", "AttributeError",
		},
		SchemaInvalid: {
			"INVALID_PARAMETERS", "INVALID_PARAMS", "INVALID_ARGUMENT", "INVALID_ARGUMENTS", "MISSING_PARAMETER",
			"VALIDATION_ERROR", "BAD_REQUEST", "OUT_OF_RANGE", "INVALID_INPUT", "-32602", "TypeError", "UNPROCESSABLE_ENTITY",
		},
		Authentication: {"UNAUTHENTICATED", "UNAUTHORIZED", "INVALID_TOKEN", "INVALID_CREDENTIALS", "AUTHN"},
		Authorization:  {"FORBIDDEN", "PERMISSION_DENIED", "ACCESS_DENIED", "NOT_AUTHORIZED", "NOT_OWNER", "AUTHZ", "PermissionError"},
		NotFound:       {"RESOURCE_NOT_FOUND", "UNKNOWN_ID", "NO_SUCH_RESOURCE", "KeyError", "FileNotFoundError", "ENOENT"},
		Conflict:       {"ALREADY_EXISTS", "DUPLICATE", "ABORTED", "ALREADY_CANCELLED", "VERSION_CONFLICT", "FileExistsError"},
		Precondition: {
			"FAILED_PRECONDITION", "PRECONDITION_FAILED", "BUSINESS_RULE", "INVALID_STATE", "INSUFFICIENT_FUNDS",
			"INSUFFICIENT_BALANCE", "OUT_OF_STOCK", "NOT_ALLOWED", "UNAVAILABLE_ITEM", "ValueError", "PAYMENT_REQUIRED",
		},
		Limit: {
			"RATE_LIMIT", "RATE_LIMITED", "RATE_LIMIT_EXCEEDED", "TOO_MANY_REQUESTS", "QUOTA_EXCEEDED",
			"RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED", "PAYLOAD_TOO_LARGE",
		},
		Transient:   {"UNAVAILABLE", "SERVICE_UNAVAILABLE", "TIMEOUT", "DEADLINE_EXCEEDED", "BAD_GATEWAY", "TimeoutError", "ConnectionError"},
		Internal:    {"INTERNAL_ERROR", "INTERNAL_SERVER_ERROR", "UNKNOWN_ERROR", "-32603", "DATA_LOSS", "RuntimeError"},
		Unparseable: nil,
	}
}

func knownTexts() []TextRule {
	return []TextRule{
		{`\b(tool|function|method)\b.{0,80}\b(not found|not available|does not exist|not recogni[sz]ed)|\b(unknown|no such|invalid) (tool|function|method)\b`, UnknownTool},
		{`\bmalformed\b|\b(invalid|broken) json\b|could not (parse|decode)|\bjson ?decode|expecting (value|property name|',' delimiter)|unterminated string`, MalformedCall},
		{`missing \d+ required|unexpected keyword argument|missing (a )?required|required (argument|parameter|field|property)|(argument|parameter|field)s? (is|are) (required|missing|not allowed)|validation error|(is|are) not of type|(should|must) be (an?|one of|of type) |invalid (type|format|argument|parameter|enum|input|value)|out of range|unknown (argument|parameter|field)`, SchemaInvalid},
		{`rate.?limit|too many|\bquota\b|limit (is |was |has been )?(reached|exceeded)|exceed(s|ed|ing)?\b|\bat most\b|maximum (number|amount|of)`, Limit},
		{`unauthenticated|not (logged|signed) in|log ?in (first|required)|authenticat|invalid (token|credential|password|api key|pin)|(session|token) (has )?expired`, Authentication},
		{`permission|forbidden|not authori[sz]ed|unauthori[sz]ed|access denied|does not (belong to|own)|not (the|your) (owner|order|account|reservation)|another (user|customer|account)`, Authorization},
		{`timed? ?out|temporar(y|ily)|service (is )?unavailable|try again later|connection (refused|reset|error|closed)|network error`, Transient},
		{`\balready\b|duplicate|\bconflict|\btwice\b|in use\b`, Conflict},
		{`not found|(does|do) not exist|no such|unknown|could ?n[o']t find|no (matching|[a-z]+) (was |were )?found|doesn't exist|unrecogni[sz]ed`, NotFound},
		{`cannot|can ?not|can't|insufficient|not enough|\bmust\b|\bonly\b|not (pending|delivered|available|eligible|possible|allowed|permitted|active|open)|non-|too (late|early)|expired|in stock|mismatch|does not match`, Precondition},
		{`internal (server )?error|traceback|unhandled|exception|unexpected error|segfault|panic`, Internal},
	}
}
