package caa

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	const account = "https://ca.example/acct/1"
	issue := func(values ...string) []Record {
		var all []Record
		for _, v := range values {
			all = append(all, Record{Tag: TagIssue, Value: v})
		}
		return all
	}
	ours := Wanted{Identities: []string{"ca.example", "ca.test"}, Account: account, Method: "http-01"}
	wild := ours
	wild.Wildcard = true
	for _, tc := range []struct {
		reason  string
		records []Record
		wanted  Wanted
		want    Verdict
		text    string
	}{
		{"no records", nil, ours, Unrestricted, "do not restrict"},
		{"an address for reports only", []Record{{Tag: "iodef", Value: "mailto:a@b.example"}}, ours, Unrestricted, "do not restrict"},
		{"our CA", issue("ca.example"), ours, Allowed, "allow ca.example"},
		{"its other name, in capitals", issue(" CA.Test ; "), ours, Allowed, "allow ca.test"},
		{"one of two", issue("other.example", "ca.example"), ours, Allowed, "allow ca.example"},
		{"another CA", issue("other.example", "third.example"), ours, Forbidden, "allow only other.example, third.example, and this CA is ca.example or ca.test"},
		{"nobody", issue(";"), ours, Forbidden, "allow only no CA at all"},
		{"nobody, without a semicolon", issue(""), ours, Forbidden, "allow only no CA at all"},
		{"nobody, and our CA", issue(";", "ca.example"), ours, Allowed, "allow ca.example"},
		{"unreadable", issue("ca.example x"), ours, Forbidden, "cannot be read"},
		{"an unreadable parameter", issue("ca.example; x"), ours, Forbidden, "cannot be read"},
		{"another parameter", issue("ca.example; x=1"), ours, Allowed, ""},
		{"a critical property of the future", []Record{{Critical: true, Tag: "future"}}, ours, Forbidden, `critical property "future"`},
		{"a property of the future", []Record{{Tag: "future"}}, ours, Unrestricted, ""},
		{"issuewild does not matter for others", []Record{{Tag: TagIssueWild, Value: ";"}}, ours, Unrestricted, ""},
		{"issuewild for wildcards", []Record{{Tag: TagIssueWild, Value: "ca.example"}, {Tag: TagIssue, Value: ";"}}, wild, Allowed, ""},
		{"issue for wildcards", issue("ca.example"), wild, Allowed, ""},
		{"no wildcards", append(issue("ca.example"), Record{Tag: "ISSUEWILD", Value: ";"}), wild, Forbidden, ""},
		{"our account", issue("ca.example; accounturi=" + account), ours, Allowed, ""},
		{"another account", issue("ca.example; accounturi=" + account + "2"), ours, Forbidden, "only its account " + account + "2, and the issuer's account is " + account},
		{"two accounts", issue("ca.example; accounturi=" + account + "; accounturi=" + account), ours, Forbidden, "more than once"},
		{"our account unknown", issue("ca.example; accounturi=" + account), Wanted{Identities: ours.Identities}, Unsure, "is not known"},
		{"our method", issue("ca.example; validationmethods=dns-01,http-01"), ours, Allowed, ""},
		{"another method", issue("ca.example; validationmethods = dns-01"), ours, Forbidden, "only the methods dns-01, and the solver uses http-01"},
		{"another account, and ours", issue("ca.example; accounturi=x", "ca.example; accounturi="+account), ours, Allowed, ""},
		{"the CA unknown", issue("ca.example"), Wanted{}, Unsure, "the identity of the CA is not known"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got, text := Judge(tc.records, tc.wanted)
			if got != tc.want || !strings.Contains(text, tc.text) {
				t.Errorf("%v %q, want %v %q", got, text, tc.want, tc.text)
			}
		})
	}
}

// The advised record allows what it is advised for, and nothing else.
func TestAdvised(t *testing.T) {
	w := Wanted{Identities: []string{"ca.example"}, Account: "https://ca.example/acct/1", Method: "dns-01", Wildcard: true}
	r := Advised(w)
	if want := `0 issuewild "ca.example; accounturi=https://ca.example/acct/1; validationmethods=dns-01"`; r.String() != want {
		t.Errorf("%s, want %s", r, want)
	}
	if v, why := Judge([]Record{r}, w); v != Allowed {
		t.Errorf("%v: %s", v, why)
	}
	for _, change := range []func(*Wanted){
		func(w *Wanted) { w.Identities = []string{"other.example"} },
		func(w *Wanted) { w.Account = "https://ca.example/acct/2" },
		func(w *Wanted) { w.Method = "http-01" },
	} {
		changed := w
		change(&changed)
		if v, why := Judge([]Record{r}, changed); v != Forbidden {
			t.Errorf("%+v: %v: %s", changed, v, why)
		}
	}
}
