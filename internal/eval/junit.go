package eval

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Name    string   `xml:"name,attr"`
	Suites  []suite  `xml:"testsuite"`
}

type suite struct {
	Name     string  `xml:"name,attr"`
	Tests    int     `xml:"tests,attr"`
	Failures int     `xml:"failures,attr"`
	Errors   int     `xml:"errors,attr"`
	Skipped  int     `xml:"skipped,attr"`
	Time     string  `xml:"time,attr"`
	Cases    []xcase `xml:"testcase"`
}

type xcase struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	Time    string   `xml:"time,attr"`
	Failure *problem `xml:"failure,omitempty"`
	Error   *problem `xml:"error,omitempty"`
	Skipped *problem `xml:"skipped,omitempty"`
	Out     string   `xml:"system-out,omitempty"`
}

type problem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the report as JUnit XML: a suite for each agent, a test for each attempt. where
// ends the commands that show the sessions of attempts.
func (r *Report) JUnit(w io.Writer, where string) error {
	out := suites{Name: "stile eval " + r.Run}
	for _, s := range r.Agents {
		one := suite{Name: s.Agent, Tests: s.Attempts, Failures: s.Failed, Errors: s.Broken, Skipped: s.NotRun}
		total := int64(0)
		for i := range r.Attempts {
			a := &r.Attempts[i]
			if a.Agent != s.Agent {
				continue
			}
			total += a.MS
			c := xcase{Name: fmt.Sprintf("%s #%d", a.Case, a.N), Class: s.Agent, Time: inSeconds(a.MS), Out: "stile sessions show " + a.SID + where}
			p := &problem{Text: strings.Join(a.Failures, "\n")}
			p.Message, _, _ = strings.Cut(p.Text, "\n")
			switch a.State {
			case Passed:
			case Failed:
				c.Failure = p
			case Broken:
				c.Error = p
			case NotRun:
				c.Skipped = &problem{Message: "not run"}
			}
			one.Cases = append(one.Cases, c)
		}
		one.Time = inSeconds(total)
		out.Suites = append(out.Suites, one)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func inSeconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }
