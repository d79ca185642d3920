package acmeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/rights"
)

// DecideConfig holds a decision and the accounts that it is for.
type DecideConfig struct {
	Config
	Decision v1alpha1.AcmeDecision
	// Reason is text for people.
	Reason string
	// Accounts are names of AcmeAccounts, or their account URLs.
	Accounts []string
}

// Decide approves or revokes accounts. After a failure it continues with the others, and
// returns the error at the end.
func Decide(ctx context.Context, cfg DecideConfig) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	var failed error
	for _, given := range cfg.Accounts {
		failed = errors.Join(failed, cfg.decide(ctx, c, AccountName(given)))
	}
	return failed
}

// AccountName returns the name of an AcmeAccount, given its name or its URL.
func AccountName(given string) string {
	if _, after, isURL := strings.Cut(given, "/acct/"); isURL {
		given, _, _ = strings.Cut(after, "/")
	}
	return given
}

func (cfg DecideConfig) decide(ctx context.Context, c client.Client, name string) error {
	a := &v1alpha1.AcmeAccount{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, a); err != nil {
		return cfg.refused("reading the AcmeAccount "+name, err, "get and patch on acmeaccounts.certplane.dev, as in the ClusterRole certplane-acme-admin", "acmeaccounts")
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"decision": cfg.Decision, "decisionReason": cfg.Reason}})
	if err != nil {
		return fmt.Errorf("encoding the decision: %w", err)
	}
	err = c.Patch(ctx, a, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager))
	needs := fmt.Sprintf("patch on acmeaccounts.certplane.dev, and the verb %s on acmeendpoints/%s, as in the ClusterRole certplane-acme-admin", rights.ACMEApprove, a.Spec.Endpoint)
	if err := cfg.refused(fmt.Sprintf("deciding the AcmeAccount %s of the endpoint %s", name, a.Spec.Endpoint), err, needs, "acmeaccounts"); err != nil {
		return err
	}
	fmt.Fprintf(cfg.Stdout, "%s AcmeAccount %s of %s, which acts as %s/%s%s\n", cfg.Decision, name, a.Spec.Endpoint, a.Spec.ServiceAccount.Namespace, a.Spec.ServiceAccount.Name, cfg.outcome(a))
	return nil
}

// outcome describes the state of an account after a decision, where it is not obvious.
func (cfg DecideConfig) outcome(a *v1alpha1.AcmeAccount) string {
	switch {
	case cfg.Decision == v1alpha1.AcmeDecisionRevoked:
		return ": its next request is refused. Its certificates stay valid until they expire"
	case a.Status.State == v1alpha1.AcmeAccountDeactivated || a.Status.State == v1alpha1.AcmeAccountRevoked:
		return fmt.Sprintf(": it stays %s; its client must create a new one", a.Status.State)
	}
	return ""
}
