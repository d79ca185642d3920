// Package status shows which certificate policies there are for each signer, and
// what becomes of the requests that none is about.
package status

import (
	"context"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/policy/protection"
)

// Config says which API to look at.
type Config struct {
	API client.Reader
	// Version returns the version of the API server.
	Version func(context.Context) (string, error)
	Now     time.Time
	// Output is json, yaml, or empty for text.
	Output string
	Stdout io.Writer
}

// Report is what is known about policies.
type Report struct {
	// Server is the version of the API server.
	Server  string   `json:"server"`
	Signers []Signer `json:"signers"`
	// Waiting are the requests that wait for people.
	Waiting []Waiting `json:"waiting,omitempty"`
	// Proposals are changes of policies and exceptions that too few people have
	// written.
	Proposals  []Proposal  `json:"proposals,omitempty"`
	Exceptions []Exception `json:"exceptions,omitempty"`
	// Renewing are the policies by which certificates are renewed without people.
	Renewing []Renewing `json:"renewing,omitempty"`
	// Impersonators can vote as somebody else.
	Impersonators []Impersonator `json:"impersonators,omitempty"`
	// Notes are what concerns all signers, and what is not known.
	Notes []string `json:"notes,omitempty"`
}

// Signer is a signer, or a pattern of signers of a policy.
type Signer struct {
	Name     string   `json:"name"`
	Policies []Policy `json:"policies,omitempty"`
	// Requests has what becomes of each kind of request.
	Requests []Requests `json:"requests"`
}

// Policy is a policy that can be about requests for a signer.
type Policy struct {
	Name   string                      `json:"name"`
	Effect v1alpha1.PolicyEffect       `json:"effect"`
	Mode   v1alpha1.PolicyMode         `json:"mode"`
	Kinds  []v1alpha1.RequestKind      `json:"kinds,omitempty"`
	Grants v1alpha1.PolicyApprovalMode `json:"approval,omitempty"`
	// Replaces is the policy in whose place it is evaluated.
	Replaces string `json:"replaces,omitempty"`
	// Protection says which people a change of the policy needs.
	Protection string `json:"protection,omitempty"`
	Ready      bool   `json:"ready"`
	// Why says why it is not ready.
	Why string `json:"why,omitempty"`
}

// Requests are the requests of a kind for a signer.
type Requests struct {
	Kind v1alpha1.RequestKind `json:"kind"`
	// Rest is what becomes of those that no Allow policy is about.
	Rest string `json:"rest"`
	// RestIf is what Rest depends on and the API does not show; empty if it
	// depends on nothing.
	RestIf string `json:"restIf,omitempty"`
	// Seen is the last request that was approved although no policy is about it.
	Seen *Seen `json:"seen,omitempty"`
	// EnforcedAt are the stages at which policies are enforced.
	EnforcedAt []Stage `json:"enforcedAt"`
}

// Seen is a request that shows what becomes of others.
type Seen struct {
	Request string      `json:"request"`
	Time    metav1.Time `json:"time"`
}

// Stage is a stage at which policies are enforced.
type Stage struct {
	Name string `json:"name"`
	// Known is unset if it depends on something that the API does not show.
	Known bool `json:"known"`
}

// Waiting is a request that waits for people.
type Waiting struct {
	Kind      v1alpha1.RequestKind `json:"kind"`
	Namespace string               `json:"namespace,omitempty"`
	Name      string               `json:"name"`
	Signer    string               `json:"signer"`
	Since     metav1.Time          `json:"since"`
	// Message says who is missing.
	Message string `json:"message"`
}

// Proposal is what people have proposed for a policy or an exception.
type Proposal struct {
	Kind protection.Kind `json:"kind"`
	Name string          `json:"name"`
	// Message says what, by whom, and who is missing.
	Message string `json:"message"`
}

// Exception is an exception from policies.
type Exception struct {
	Name     string      `json:"name"`
	Policies []string    `json:"policies"`
	Items    []string    `json:"items"`
	NotAfter metav1.Time `json:"notAfter"`
	// Left says how long it lasts.
	Left   string `json:"left"`
	Reason string `json:"reason"`
	// Why says why it has no effect; empty if it has.
	Why string `json:"why,omitempty"`
}

// Run writes what is known about the policies of an API.
func Run(ctx context.Context, cfg Config) error {
	s, err := gather(ctx, cfg)
	if err != nil {
		return err
	}
	report := s.report(cfg.Now)
	return print.Found(cfg.Stdout, cfg.Output, report, func() string { return report.text(cfg.Now) })
}
