package signer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// List prints a table of the Signers. Output is a format of print.Formats, or empty.
func List(ctx context.Context, cfg Config, now time.Time) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	list := &v1alpha1.SignerList{}
	switch err := c.List(ctx, list); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return ErrNoKind
	case err != nil:
		return exit.Advise("listing Signers", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Signer) int { return strings.Compare(a.Name, b.Name) })
	return print.Found(cfg.Stdout, cfg.Output, list, func() string { return table(list.Items, now) })
}

func table(signers []v1alpha1.Signer, now time.Time) string {
	if len(signers) == 0 {
		return "No Signers found. To create one: certplane signer create\n"
	}
	rows := [][]string{{"NAME", "SIGNER", "READY", "CA ENDS", "USAGES"}}
	for i := range signers {
		s := &signers[i]
		ready, ends := "Unknown", "-"
		if condition := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.Ready); condition != nil {
			ready = string(condition.Status)
		}
		switch ca := s.Status.CA; {
		case ca != nil && ca.NotAfter.After(now):
			ends = "in " + print.Span(ca.NotAfter.Sub(now))
		case ca != nil:
			ends = fmt.Sprintf("ended %s", print.Ago(now, ca.NotAfter.Time))
		}
		rows = append(rows, []string{s.Name, s.Spec.SignerName, ready, ends, strings.Join(s.Spec.Profile.Usages, ", ")})
	}
	return print.Columns(rows)
}
