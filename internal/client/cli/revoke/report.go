package revoke

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// report writes what was revoked.
func (cfg Config) report(a act, revocation *v1alpha1.Revocation) {
	status := revocation.Status
	switch {
	case status.Recorded == 0 && status.AlreadyRevoked > 0:
		fmt.Fprintf(cfg.Stdout, "already revoked: %s\n", a.text())
	case a.count > shownNames:
		fmt.Fprintf(cfg.Stdout, "revoked %s, %s\n", a.text(), cfg.Reason)
	default:
		for i := range a.first {
			fmt.Fprintf(cfg.Stdout, "revoked %s, %s\n", describe(&a.first[i]), cfg.Reason)
		}
	}
	fmt.Fprintf(cfg.Stdout, "recorded as Revocation %s\n", revocation.Name)
}

// pollEvery is the time between two looks at a Revocation.
const pollEvery = 200 * time.Millisecond

// await waits until the certificates are in all revocation lists, and reports it.
func (cfg Config) await(ctx context.Context, c client.Client, revocation *v1alpha1.Revocation) error {
	if cfg.Wait <= 0 || revocation.Status.Recorded == 0 { // what was revoked before is waited for by its own Revocation
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, pollEvery, cfg.Wait, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(revocation), revocation); err != nil {
			return false, fmt.Errorf("reading the Revocation: %w", err)
		}
		return listedCondition(revocation) != nil, nil
	})
	listed := listedCondition(revocation)
	switch {
	case listed != nil && listed.Status == metav1.ConditionTrue:
		fmt.Fprintln(cfg.Stdout, "refused by this server now. "+print.Printable(listed.Message))
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case listed != nil:
		err = errors.New(print.Printable(listed.Message))
	case errors.Is(err, context.DeadlineExceeded):
		text := "no message about lists after " + cfg.Wait.String()
		if open := meta.FindStatusCondition(revocation.Status.Conditions, v1alpha1.RevocationListed); open != nil {
			text = print.Printable(open.Message)
		}
		err = errors.New(text)
	}
	return &exit.Error{
		Err: fmt.Errorf("refused by this server now, but not in all revocation lists: %w", err), Code: NotListed,
		Next: []string{"To look again: " + cfg.Command("explain", "revocation", revocation.Name)},
	}
}

// noList is the reason of the condition Listed if a CA has no list: waiting does not help.
const noList = "NoList"

// listedCondition returns the condition Listed if it is decided.
func listedCondition(revocation *v1alpha1.Revocation) *metav1.Condition {
	listed := meta.FindStatusCondition(revocation.Status.Conditions, v1alpha1.RevocationListed)
	if listed == nil || listed.Status != metav1.ConditionTrue && listed.Reason != noList {
		return nil
	}
	return listed
}

// hostAdvice lists the other credentials of a host.
func (cfg Config) hostAdvice() string {
	host := cfg.Which.Host
	p := &print.Page{}
	p.Line("What else the host " + host + " may have:")
	p.Table([][]string{
		{"tokens of its pods, until these are deleted", cfg.Command("kubectl", "get", "pods", "-A", "--field-selector", "spec.nodeName="+host)},
		{"objects that RoleBindings let it read", cfg.Command("kubectl", "get", "rolebindings", "-A", "-o", "wide")},
		{"tokens with which it can join again", cfg.Command("token", "list")},
	})
	return p.String()
}
