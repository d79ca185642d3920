package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/trust"
	"github.com/certplane/certplane/internal/policy/request"
)

// trustBundles checks the roots of signers. An expired root matters only if its signer
// has no other one.
func trustBundles(ctx context.Context, c *checker) []Check {
	const what = "clustertrustbundles.certificates.k8s.io"
	bundles, err := trust.List(ctx, c.api, "")
	if errors.Is(err, certmanager.ErrNoResource) || served.IsMissing(err) {
		return nil
	}
	if err != nil {
		return unread(what, err)
	}
	var bad []Check
	lasts := map[string]Result{} // the best result among the roots of each signer
	for i := range bundles {
		bundle := &bundles[i]
		roots, err := trust.Roots(bundles[i : i+1])
		if err != nil {
			bad = append(bad, Check{Result: Failed, Text: err.Error()})
			continue
		}
		for _, root := range roots {
			result := c.ending(root.NotBefore, root.NotAfter)
			if result == Failed {
				bad = append(bad, Check{Result: Warning, Text: fmt.Sprintf("ClusterTrustBundle %s: the root %s %s", bundle.Name, root.Subject, c.until(root.NotAfter)), cause: causeOfCA(bundle.Spec.SignerName)})
			}
			if best, known := lasts[bundle.Spec.SignerName]; !known || severity(result) < severity(best) {
				lasts[bundle.Spec.SignerName] = result
			}
		}
	}
	for signer, best := range lasts {
		if best != OK && signer != "" {
			text := fmt.Sprintf("all roots of %s expire soon", signer)
			if best == Failed {
				text = fmt.Sprintf("all roots of %s have expired", signer)
			}
			bad = append(bad, Check{Result: best, Text: text, Next: []string{c.Line("trust", signer, "-o", "table")}, cause: causeOfCA(signer)})
		}
	}
	slices.SortStableFunc(bad, func(a, b Check) int { return strings.Compare(a.Text, b.Text) })
	return summed(bad, "the roots of %s are valid", print.Number(len(lasts), "signer"))
}

// joinedBundles checks whether the targets of TrustBundles and Bundles have the roots of their
// sources.
func joinedBundles(ctx context.Context, c *checker) []Check {
	var checks, bad []Check
	found := 0
	for _, kind := range []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("TrustBundle"), trustmanager.GroupVersion.WithKind(trustmanager.Kind),
	} {
		resource := strings.ToLower(kind.Kind) + "s." + kind.Group
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := c.api.List(ctx, list); err != nil {
			checks = append(checks, unread(resource, err)...)
		}
		found += len(list.Items)
		for i := range list.Items {
			object := &list.Items[i]
			var read struct {
				Status struct {
					Conditions []metav1.Condition `json:"conditions"`
				} `json:"status"`
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read); err != nil {
				continue // its definition refuses such conditions
			}
			check := c.condition(v1alpha1.TrustSynced, object, read.Status.Conditions)
			if check.Result == OK {
				continue
			}
			words, name := []string{"kubectl", "describe", resource, object.GetName()}, object.GetName()
			if in := object.GetNamespace(); in != "" {
				words, name = append(words, "-n", in), request.FullName(in, name)
			}
			check.Text, check.Next = fmt.Sprintf("%s %s: %s", kind.Kind, name, check.Text), []string{c.Line(words...)}
			bad = append(bad, check)
		}
	}
	if found == 0 {
		return checks
	}
	return append(checks, summed(bad, "%s in sync with the sources", are(found, "bundle"))...)
}
