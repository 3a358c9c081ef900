package gate

import (
	"encoding/xml"
	"fmt"
	"strings"

	"understudy/audit"
)

// The JUnit form that CI servers read: a suite per environment version, a case
// per tool and condition.
type (
	junitSuites struct {
		XMLName  xml.Name      `xml:"testsuites"`
		Name     string        `xml:"name,attr"`
		Tests    int           `xml:"tests,attr"`
		Failures int           `xml:"failures,attr"`
		Errors   int           `xml:"errors,attr"`
		Skipped  int           `xml:"skipped,attr"`
		Suites   []*junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name      string      `xml:"name,attr"`
		Tests     int         `xml:"tests,attr"`
		Failures  int         `xml:"failures,attr"`
		Errors    int         `xml:"errors,attr"`
		Skipped   int         `xml:"skipped,attr"`
		Time      string      `xml:"time,attr"`
		Timestamp string      `xml:"timestamp,attr"`
		Cases     []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name      string         `xml:"name,attr"`
		ClassName string         `xml:"classname,attr"`
		Time      string         `xml:"time,attr"`
		Failure   *junitProblem  `xml:"failure"`
		Error     *junitProblem  `xml:"error"`
		Skipped   *junitProblem  `xml:"skipped"`
		Output    *junitFreeText `xml:"system-out"`
	}
	junitProblem struct {
		Type    string `xml:"type,attr,omitempty"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	junitFreeText struct {
		Text string `xml:",chardata"`
	}
)

// ReportJUnit is the verdict as JUnit XML. What is inconclusive is skipped with
// the number of calls that it needs, since JUnit knows no third answer: the exit
// code keeps it from being taken for a pass.
func ReportJUnit(v *Verdict) ([]byte, error) {
	all := junitSuites{Name: "understudy gate"}
	suites := map[string]*junitSuite{}
	for i := range v.Checks {
		c := &v.Checks[i]
		name := plain(place(c))
		suite := suites[name]
		if suite == nil {
			suite = &junitSuite{Name: name, Time: "0", Timestamp: v.Decided.Format("2006-01-02T15:04:05")}
			suites[name] = suite
			all.Suites = append(all.Suites, suite)
		}
		suite.add(c, v)
	}
	for _, s := range all.Suites {
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
	}
	body, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the verdict as JUnit XML: %w", err)
	}
	return append([]byte(xml.Header), append(body, '\n')...), nil
}

func (s *junitSuite) add(c *Check, v *Verdict) {
	one := junitCase{
		Name: plain(fmt.Sprintf("%s %s %s", c.Subject(), c.Bound, number(c.Limit))), ClassName: plain("gate." + c.Tool), Time: "0",
		Output: &junitFreeText{c.Sentence() + "\n" + c.Estimate.Method},
	}
	problem := &junitProblem{Type: string(c.Figure), Message: c.Sentence()}
	s.Tests++
	switch {
	case c.Waived != nil:
		s.Skipped++
		one.Skipped = &junitProblem{Message: plain(fmt.Sprintf("%s, waived by %s: %s", c.Status, c.Waived.By, c.Waived.Reason))}
	case c.Status == Pass:
	case c.Informational:
		s.Skipped++
		one.Skipped = &junitProblem{Message: "informational: " + c.Sentence()}
	case c.Status == Fail:
		s.Failures++
		problem.Text = worstSamples(c, v)
		one.Failure = problem
	case c.Status == Inconclusive:
		s.Skipped++
		one.Skipped = &junitProblem{Message: c.Sentence()}
	default:
		s.Errors++
		one.Error = problem
	}
	s.Cases = append(s.Cases, one)
}

// place is the environment version of a check.
func place(c *Check) string {
	switch {
	case c.Environment == "":
		return "run"
	case c.Version == "":
		return c.Environment
	}
	return c.Environment + "@" + c.Version
}

// worstSamples lists up to three of the gravest examples on the check's tool.
func worstSamples(c *Check, v *Verdict) string {
	var b strings.Builder
	shown := 0
	for _, f := range findingsOf(c, v) {
		for _, s := range f.Samples {
			if shown == 3 {
				return b.String()
			}
			shown++
			fmt.Fprintf(&b, "%s %s at %s: rehearsed %s, real %s (pair %s)\n",
				f.Severity, plain(f.Kind), plain(s.Pointer), plain(s.Rehearsed), plain(s.Real), s.Pair)
		}
	}
	return b.String()
}

// findingsOf are the findings on a check's tool, gravest first; all of them for
// a check on findings.
func findingsOf(c *Check, v *Verdict) []audit.Finding {
	var out []audit.Finding
	for _, f := range v.Evidence.Findings {
		if c.Tool == "" || (f.Tool == c.Tool && f.Environment == c.Environment) {
			out = append(out, f)
		}
	}
	return out
}
