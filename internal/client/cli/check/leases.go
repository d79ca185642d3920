package check

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/client/cli/print"
)

// otherLeases checks who holds the Leases of other programs that the configurations of
// installations list.
func otherLeases(ctx context.Context, c *checker) []Check {
	files := &corev1.ConfigMapList{}
	if err := c.api.List(ctx, files, ofInstallation); err != nil {
		return unread("configmaps in all namespaces", err)
	}
	var checks []Check
	for _, file := range files.Items {
		var cfg struct {
			LeaderElection struct {
				ResourceName, ResourceNamespace string
				AlsoHold                        []struct{ Namespace, Name string }
			}
		}
		if yaml.Unmarshal([]byte(file.Data["config.yaml"]), &cfg) != nil {
			continue // its pods report the error
		}
		election := cfg.LeaderElection
		own := cmp.Or(election.ResourceNamespace, file.Namespace) + "/" + cmp.Or(election.ResourceName, file.Name)
		for _, l := range election.AlsoHold {
			checks = append(checks, c.otherLease(ctx, own, client.ObjectKey{Namespace: l.Namespace, Name: l.Name}))
		}
	}
	return checks
}

// otherLease checks who holds a Lease for an installation, which holds it under the name of
// its own Lease.
func (c *checker) otherLease(ctx context.Context, own string, key client.ObjectKey) Check {
	lease := &coordinationv1.Lease{}
	if err := c.api.Get(ctx, key, lease); err != nil && !apierrors.IsNotFound(err) {
		return Check{Result: NotChecked, Text: fmt.Sprintf("cannot read the Lease %s: %v", key, err)}
	}
	holder, renewed := ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{})
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	switch {
	case holder == "" || c.now.Sub(renewed.Time) > lasts+working:
		return Check{Result: Warning, cause: notInstalled, Next: []string{"It takes the Lease within a minute. If not, see its log."},
			Text: fmt.Sprintf("no program holds the Lease %s, for which controllers of %s wait", key, own)}
	case holder == own:
		return Check{Result: OK, Text: fmt.Sprintf("%s holds the Lease %s", own, key)}
	}
	return Check{Result: Warning, Next: []string{"They start when that program stops: see docs/cert-manager.md."},
		Text: fmt.Sprintf("controllers of %s wait for the Lease %s, which %s holds (renewed %s)", own, key, holder, print.Ago(c.now, renewed.Time))}
}
