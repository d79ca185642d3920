package rfc8555_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

func TestEncode(t *testing.T) {
	dns := rfc8555.Identifier{Type: "dns", Value: "a.example"}
	for _, tc := range []struct {
		reason  string
		problem *rfc8555.Problem
		want    string
	}{
		{
			"the least",
			rfc8555.NewProblem(400, rfc8555.ProblemMalformed, "the body has %d parts", 2),
			`{"type":"urn:ietf:params:acme:error:malformed","detail":"the body has 2 parts","status":400}`,
		},
		{
			"everything",
			&rfc8555.Problem{
				Type: rfc8555.Namespace + rfc8555.ProblemCompound, Detail: "two names", Status: 400, Instance: "https://ca.example/help", Algorithms: []string{"ES256"},
				TermsOfService: "https://ca.example/terms",
				Subproblems:    []rfc8555.Subproblem{*rfc8555.NewSubproblem(dns, rfc8555.ProblemDNS, "none"), {Type: "t", Detail: "d"}},
			},
			`{"type":"urn:ietf:params:acme:error:compound","detail":"two names","status":400,"instance":"https://ca.example/help",` +
				`"subproblems":[{"type":"urn:ietf:params:acme:error:dns","detail":"none","identifier":{"type":"dns","value":"a.example"}},{"type":"t","detail":"d"}],"algorithms":["ES256"]}`,
		},
		{
			"control characters and bidirectional overrides",
			&rfc8555.Problem{Type: "t", Detail: "a\r\nb\x1b[31m\u202ec\xff\ufffd", Status: 403},
			`{"type":"t","detail":"a  b [31m c  ","status":403}`,
		},
	} {
		if got := string(tc.problem.Encode()); got != tc.want {
			t.Errorf("%s:\n%s, want\n%s", tc.reason, got, tc.want)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	long := strings.Repeat("é\n", 100_000)
	p := rfc8555.NewProblem(400, rfc8555.ProblemMalformed, "%s", long)
	if len(p.Detail) > 1024 || strings.ContainsFunc(p.Detail, unicode.IsControl) {
		t.Errorf("the detail has %d bytes: %.80q", len(p.Detail), p.Detail)
	}
	p.Detail = long
	for range 200 {
		p.Subproblems = append(p.Subproblems, rfc8555.Subproblem{Detail: long, Identifier: rfc8555.Identifier{Type: long, Value: long}})
	}
	var sent rfc8555.ProblemDocument
	if err := json.Unmarshal(p.Encode(), &sent); err != nil {
		t.Fatal(err)
	}
	if len(sent.Subproblems) != 100 || len(sent.Detail) > 1024 || len(sent.Subproblems[99].Detail) > 1024 {
		t.Errorf("%d subproblems, a detail of %d bytes, one of %d", len(sent.Subproblems), len(sent.Detail), len(sent.Subproblems[99].Detail))
	}
	if id := sent.Subproblems[0].Identifier; len(id.Type) > 64 || len(id.Value) > 256 {
		t.Errorf("an identifier of %d and %d bytes", len(id.Type), len(id.Value))
	}
	if p.Subproblems[0].Detail != long {
		t.Error("encoding has changed the problem")
	}
}

func TestCombine(t *testing.T) {
	sub := func(name, kind string) rfc8555.Subproblem {
		return *rfc8555.NewSubproblem(rfc8555.Identifier{Type: "dns", Value: name}, kind, "%s", name)
	}
	a, b, c := sub("a", rfc8555.ProblemMalformed), sub("b", rfc8555.ProblemMalformed), sub("c", rfc8555.ProblemRejectedIdentifier)
	for _, tc := range []struct {
		reason, kind string
		of           []rfc8555.Subproblem
		parts        int
	}{
		{"one", rfc8555.ProblemRejectedIdentifier, []rfc8555.Subproblem{c}, 0},
		{"two of one type", rfc8555.ProblemMalformed, []rfc8555.Subproblem{a, b}, 2},
		{"two types", rfc8555.ProblemCompound, []rfc8555.Subproblem{a, b, c}, 3},
	} {
		if p := rfc8555.Combine(tc.of); !p.HasType(tc.kind) || p.Status != 400 || len(p.Subproblems) != tc.parts {
			t.Errorf("%s: %v", tc.reason, p)
		}
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"":                             `""`,
		"a\"b\n\u202e":                 `"a\"b\n\u202e"`,
		strings.Repeat("a", 64):        `"` + strings.Repeat("a", 64) + `"`,
		strings.Repeat("a", 65):        `"` + strings.Repeat("a", 64) + `"...`,
		strings.Repeat("a", 63) + "éb": `"` + strings.Repeat("a", 63) + `"...`,
	} {
		if got := rfc8555.Quote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A server of ours is understood by a client of ours.
func TestDocumentSurvives(t *testing.T) {
	p := rfc8555.NewProblem(400, rfc8555.ProblemBadSignatureAlgorithm, "%s is not accepted", rfc8555.Quote("none"))
	p.Algorithms = []string{"ES256", "RS256"}
	var read rfc8555.ProblemDocument
	if err := json.Unmarshal(p.Encode(), &read); err != nil || !reflect.DeepEqual(read, p.Document()) {
		t.Errorf("%+v, %v", read, err)
	}
}
