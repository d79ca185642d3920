// Package votes verifies the approvals of people on requests, with or without a server.
package votes

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Config selects the requests, and the keys that verify their approvals.
type Config struct {
	Requests []*requests.Asked
	// Keys are the public keys of the server that sealed the approvals.
	Keys []ed25519.PublicKey
	// Output is json, yaml, or empty for text.
	Output string
	Stdout io.Writer
}

// Report contains the approvals of requests.
type Report struct {
	Requests []Request `json:"requests"`
}

// Request is a request with its approvals.
type Request struct {
	Kind      v1alpha1.RequestKind `json:"kind"`
	Namespace string               `json:"namespace,omitempty"`
	Name      string               `json:"name"`
	Votes     []Vote               `json:"votes"`
}

// Vote is a sealed approval.
type Vote struct {
	// Condition is the type of the condition that contains it.
	Condition string `json:"condition"`
	// Valid is true if the seal verifies, and the approval is for this request with its
	// present content. Because is the reason if not.
	Valid   bool   `json:"valid"`
	Because string `json:"because,omitempty"`
	// The following fields were sealed; they are empty if the seal does not verify.
	User   string       `json:"user,omitempty"`
	Groups []string     `json:"groups,omitempty"`
	Time   *metav1.Time `json:"time,omitempty"`
	// Policies are the policies that required people at that time.
	Policies []string `json:"policies,omitempty"`
	// Override is the reason for overriding policies.
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
			page.Line("  has no sealed approvals")
		}
		var rows [][]string
		for _, v := range one.Votes {
			rows = append(rows, v.row())
		}
		page.Table(rows)
	}
	return page.String()
}

// row returns the cells of a vote; unknown cells are empty.
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
