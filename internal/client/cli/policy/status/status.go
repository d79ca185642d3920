// Package status shows the certificate policies of each signer, and the outcome of
// requests that none matches.
package status

import (
	"context"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policy/protection"
)

// Config selects the API, and the output.
type Config struct {
	API client.Reader
	// Version returns the version of the API server.
	Version func(context.Context) (string, error)
	Now     time.Time
	// Output is json, yaml, or empty for text.
	Output string
	Stdout io.Writer
}

// Report is the status of policies.
type Report struct {
	// Server is the version of the API server.
	Server  string   `json:"server"`
	Signers []Signer `json:"signers"`
	// Waiting are the requests that wait for people.
	Waiting []Waiting `json:"waiting,omitempty"`
	// Proposals are pending changes of policies and exceptions that need more people.
	Proposals  []Proposal  `json:"proposals,omitempty"`
	Exceptions []Exception `json:"exceptions,omitempty"`
	// Renewing are the policies that permit renewals without people.
	Renewing []Renewing `json:"renewing,omitempty"`
	// Impersonators can vote as another user.
	Impersonators []Impersonator `json:"impersonators,omitempty"`
	// Notes are remarks for all signers, and missing information.
	Notes []string `json:"notes,omitempty"`
}

// Signer is a signer, or a pattern of signers of a policy.
type Signer struct {
	Name     string   `json:"name"`
	Policies []Policy `json:"policies,omitempty"`
	// Requests holds the outcome of each kind of request.
	Requests []Requests `json:"requests"`
}

// Policy is a policy that can match requests for a signer.
type Policy struct {
	Name   string                      `json:"name"`
	Effect v1alpha1.PolicyEffect       `json:"effect"`
	Mode   v1alpha1.PolicyMode         `json:"mode"`
	Kinds  []v1alpha1.RequestKind      `json:"kinds,omitempty"`
	Grants v1alpha1.PolicyApprovalMode `json:"approval,omitempty"`
	// Replaces is the policy that it replaces in its evaluation.
	Replaces string `json:"replaces,omitempty"`
	// Protection describes the people that a change of the policy needs.
	Protection string `json:"protection,omitempty"`
	Ready      bool   `json:"ready"`
	// Why is the reason why it is not ready.
	Why string `json:"why,omitempty"`
}

// Requests are the requests of a kind for a signer.
type Requests struct {
	Kind v1alpha1.RequestKind `json:"kind"`
	// Rest is the outcome of requests that no Allow policy matches.
	Rest string `json:"rest"`
	// RestIf is the condition of Rest that the API does not show; empty without one.
	RestIf string `json:"restIf,omitempty"`
	// Seen is the last request that was approved although no policy matches it.
	Seen *Seen `json:"seen,omitempty"`
	// EnforcedAt are the stages at which policies are enforced.
	EnforcedAt []Stage `json:"enforcedAt"`
}

// Seen is a request that shows the outcome of similar ones.
type Seen struct {
	Request string      `json:"request"`
	Time    metav1.Time `json:"time"`
}

// Stage is a stage at which policies are enforced.
type Stage struct {
	Name string `json:"name"`
	// Known is false if it depends on something that the API does not show.
	Known bool `json:"known"`
}

// Waiting is a request that waits for people.
type Waiting struct {
	Kind      v1alpha1.RequestKind `json:"kind"`
	Namespace string               `json:"namespace,omitempty"`
	Name      string               `json:"name"`
	Signer    string               `json:"signer"`
	Since     metav1.Time          `json:"since"`
	// Message names the missing people.
	Message string `json:"message"`
}

// Proposal is a change that people have proposed for a policy or an exception.
type Proposal struct {
	Kind protection.Kind `json:"kind"`
	Name string          `json:"name"`
	// Message describes the change, its authors, and the missing people.
	Message string `json:"message"`
}

// Exception is an exception from policies.
type Exception struct {
	Name     string      `json:"name"`
	Policies []string    `json:"policies"`
	Items    []string    `json:"items"`
	NotAfter metav1.Time `json:"notAfter"`
	// Left is the remaining time as text.
	Left   string `json:"left"`
	Reason string `json:"reason"`
	// Why is the reason why it has no effect; empty if it has one.
	Why string `json:"why,omitempty"`
}

// Run writes the status of the policies of an API.
func Run(ctx context.Context, cfg Config) error {
	s, err := gather(ctx, cfg)
	if err != nil {
		return err
	}
	report := s.report(cfg.Now)
	return print.Found(cfg.Stdout, cfg.Output, report, func() string { return report.text(cfg.Now) })
}
