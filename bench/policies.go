package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// policyLoad is how many requests are measured with and without how many
// policies.
type policyLoad struct {
	requesters, requests, policies, times int
}

// policyYAML is a policy that checks a request's key, its names, its lifetime and, by an
// expression, its content. People still approve: the benchmark measures the same requests
// with and without policies. Half of the policies select these requests, the others another
// signer.
const policyYAML = `
apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: bench-%[1]d}
spec:
  effect: Limit
  match:
    kinds: [CertificateSigningRequest]
    signers: ["%[2]s/*"]
    requesters: {users: ["bench-*"]}
  certificate:
    subject: {commonName: {patterns: ["requester", "bench-*"]}, organizations: {max: 5}}
    keys: {types: [ECDSAP256, ECDSAP384, ED25519]}
    usages: {allowed: [digital signature, key encipherment, client auth]}
    lifetime: {max: 24h}
  rules:
  - name: no-names-of-others
    expression: "!request.subject.commonName.startsWith('other-%[1]d-')"
`

// policiesResult is what policies cost.
type policiesResult struct {
	Policies int `json:"policies"`
	// Without and With are rounds in turn.
	Without []roundResult `json:"without"`
	With    []roundResult `json:"with"`
	// Rate is the rate with policies, as a part of that without.
	Rate float64 `json:"rate"`
	CPU  float64 `json:"cpu"`
}

// measurePolicies loads a separate certplane with the same requests without and with
// policies, in turn.
func measurePolicies(ctx context.Context, s *system, opts options, to *results) error {
	client, err := newRequesterClient(ctx, s.admin)
	if err != nil {
		return err
	}
	policies, err := newBenchPolicies(s.admin)
	if err != nil {
		return err
	}
	load := opts.policies
	result := &policiesResult{Policies: load.policies}
	for i := range load.times {
		// What is stored grows: neither is always the later one.
		for _, with := range []bool{i%2 == 1, i%2 == 0} {
			if err := policies.become(ctx, with, load.policies); err != nil {
				return err
			}
			finish := func() {}
			if with {
				finish = opts.startProfile(ctx, s, "policies", i)
			}
			measured, err := measureRound(ctx, s, client, round{load.requesters, load.requests}, (*waiting).obtain)
			if err != nil {
				return err
			}
			finish()
			if with {
				result.With = append(result.With, measured)
			} else {
				result.Without = append(result.Without, measured)
			}
		}
	}
	result.Rate = mean(result.With, roundResult.rate) / mean(result.Without, roundResult.rate)
	result.CPU = mean(result.With, roundResult.cpu) / mean(result.Without, roundResult.cpu)
	to.Policies = result
	return nil
}

func (r roundResult) rate() float64 { return r.Rate }
func (r roundResult) cpu() float64  { return r.ServerCPUMilliseconds }

func mean(rounds []roundResult, of func(roundResult) float64) float64 {
	sum := 0.0
	for _, r := range rounds {
		sum += of(r)
	}
	return sum / float64(len(rounds))
}

type benchPolicies struct {
	objects client.Client
	created bool
}

// become creates n policies or removes them, unless that has been done.
func (p *benchPolicies) become(ctx context.Context, with bool, n int) error {
	switch {
	case with == p.created:
		return nil
	case with:
		p.created = true
		return p.create(ctx, benchPolicyTexts(n)...)
	default:
		p.created = false
		return p.remove(ctx)
	}
}

func newBenchPolicies(admin *rest.Config) (benchPolicies, error) {
	objects, err := newObjects(admin)
	return benchPolicies{objects: objects}, err
}

func benchPolicyTexts(n int) []string {
	var texts []string
	for i := range n {
		signers := "kubernetes.io"
		if i%2 == 1 {
			signers = "example.com"
		}
		texts = append(texts, fmt.Sprintf(policyYAML, i, signers))
	}
	return texts
}

// create creates policies, and returns when they are in force.
func (p benchPolicies) create(ctx context.Context, texts ...string) error {
	for _, text := range texts {
		policy := &v1alpha1.CertificatePolicy{}
		if err := yaml.Unmarshal([]byte(text), policy); err != nil {
			return err
		}
		if err := p.objects.Create(ctx, policy); err != nil {
			return fmt.Errorf("creating a policy: %w", err)
		}
	}
	return p.settle(ctx, func(found []v1alpha1.CertificatePolicy) bool {
		for i := range found {
			if found[i].Status.ObservedGeneration == 0 {
				return false
			}
		}
		return len(found) == len(texts)
	})
}

func (p benchPolicies) remove(ctx context.Context) error {
	if err := p.objects.DeleteAllOf(ctx, &v1alpha1.CertificatePolicy{}); err != nil {
		return fmt.Errorf("deleting the policies: %w", err)
	}
	return p.settle(ctx, func(found []v1alpha1.CertificatePolicy) bool { return len(found) == 0 })
}

// settle waits until policies are as they should be, and until the server denies
// by them: it waits after a change, as several may be applied.
func (p benchPolicies) settle(ctx context.Context, done func([]v1alpha1.CertificatePolicy) bool) error {
	for {
		var found v1alpha1.CertificatePolicyList
		if err := p.objects.List(ctx, &found); err != nil {
			return err
		}
		if done(found.Items) {
			return sleep(ctx, 3*time.Second)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for the policies: %w", err)
		}
	}
}

func (r *policiesResult) write(out io.Writer) error {
	if r == nil {
		return nil
	}
	fmt.Fprintf(out, "\nThe same requests without and with %d policies, in turn:\n", r.Policies)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "policies\tcertificates\terrors\trate /s\tp50 ms\tp99 ms\t"+costColumns)
	for i := range r.With {
		for _, row := range []struct {
			policies int
			roundResult
		}{{0, r.Without[i]}, {r.Policies, r.With[i]}} {
			fmt.Fprintf(table, "%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t%s\n", row.policies, row.Certificates, row.Errors, row.Rate,
				row.P50Milliseconds, row.P99Milliseconds, row.columns())
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "With policies, half of which select the requests: %.2f of the rate, %.2f times the CPU.\n", r.Rate, r.CPU)
	return err
}
