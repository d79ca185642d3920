// Package votes verifies the approvals of people that requests have, also without a
// server.
package votes

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/cli/policy/answer"
	"github.com/certplane/certplane/internal/cli/policy/requests"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Config says which requests have approvals, and what verifies them.
type Config struct {
	Requests []*requests.Asked
	// Keys are the public keys of the server that has sealed the approvals.
	Keys []ed25519.PublicKey
	// Output is json, yaml, or empty for text.
	Output string
	Stdout io.Writer
}

// Report are the approvals of requests.
type Report struct {
	Requests []Request `json:"requests"`
}

// Request is a request with the approvals that it has.
type Request struct {
	Kind      v1alpha1.RequestKind `json:"kind"`
	Namespace string               `json:"namespace,omitempty"`
	Name      string               `json:"name"`
	Votes     []Vote               `json:"votes"`
}

// Vote is an approval as it is sealed.
type Vote struct {
	// Condition is the type of the condition that has it.
	Condition string `json:"condition"`
	// Valid: the seal verifies, and it is an approval of this request with its
	// present content. Because says why not.
	Valid   bool   `json:"valid"`
	Because string `json:"because,omitempty"`
	// What follows was sealed; it is empty if the seal does not verify.
	User   string       `json:"user,omitempty"`
	Groups []string     `json:"groups,omitempty"`
	Time   *metav1.Time `json:"time,omitempty"`
	// Policies are those that required people then.
	Policies []string `json:"policies,omitempty"`
	// Override is why the approval is one in the place of others.
	Override string `json:"override,omitempty"`
}

// Run verifies the approvals and writes them. Its error is an answer.No if one is
// not valid.
func Run(cfg Config) error {
	report, wrong := Report{}, 0
	for _, asked := range cfg.Requests {
		r := Request{Kind: asked.Request.Kind, Namespace: asked.Request.Namespace, Name: asked.Request.Name, Votes: []Vote{}}
		for _, e := range quorum.Examine(policies.ConditionsOf(asked.Object), asked.Request, policies.VerifiedBy(cfg.Keys)) {
			v := voteOf(e)
			r.Votes = append(r.Votes, v)
			if !v.Valid {
				wrong++
			}
		}
		report.Requests = append(report.Requests, r)
	}
	if err := print.Found(cfg.Stdout, cfg.Output, report, report.text); err != nil {
		return err
	}
	if wrong > 0 {
		return answer.No("%s not valid", are(wrong))
	}
	return nil
}

func are(approvals int) string {
	if approvals == 1 {
		return "1 approval is"
	}
	return fmt.Sprintf("%d approvals are", approvals)
}

func voteOf(e quorum.Examined) Vote {
	v := Vote{Condition: e.Condition.Type, Valid: e.Err == nil, User: e.Record.User, Groups: e.Record.Groups}
	if e.Err != nil {
		v.Because = e.Err.Error()
	}
	if !e.Record.Time.IsZero() {
		v.Time = new(metav1.NewTime(e.Record.Time))
	}
	for _, p := range e.Record.Policies {
		v.Policies = append(v.Policies, p.Name)
	}
	if e.Record.Override != nil {
		v.Override = e.Record.Override.Why
	}
	return v
}

func (r Report) text() string {
	page := &print.Page{}
	for _, one := range r.Requests {
		page.Line(string(one.Kind) + " " + request.FullName(one.Namespace, one.Name))
		if len(one.Votes) == 0 {
			page.Line("  has no approvals that are sealed")
		}
		var rows [][]string
		for _, v := range one.Votes {
			rows = append(rows, v.row())
		}
		page.Table(rows)
	}
	return page.String()
}

// row is empty in what is not known.
func (v *Vote) row() []string {
	row := []string{"valid", v.User, "", "", ""}
	if len(v.Groups) > 0 {
		row[2] = "of " + strings.Join(v.Groups, ", ")
	}
	if v.Time != nil {
		row[3] = v.Time.UTC().Format(time.RFC3339)
	}
	switch {
	case !v.Valid:
		row[0], row[4] = "wrong", v.Because
	case v.Override != "":
		row[4] = "overrides " + strings.Join(v.Policies, ", ") + ": " + v.Override
	default:
		row[4] = "for " + strings.Join(v.Policies, ", ")
	}
	return row
}
