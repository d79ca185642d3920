package check

import (
	"context"
	"errors"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/generated/crds"
)

// kindsServed checks whether "certplane serve" serves the kinds that it installs, and
// lists the kinds of certificates.k8s.io that another server lacks.
func kindsServed(ctx context.Context, c *checker) []Check {
	if !c.servesCertplane {
		return newerKinds(ctx, c)
	}
	missing, err := c.notServed(ctx, crds.Names())
	switch {
	case err != nil:
		return unread("the kinds that are served", err)
	case len(missing) > 0:
		return []Check{{
			Result: Failed, Text: "it does not serve " + strings.Join(missing, ", "),
			Next: []string{"It installs the definitions of these kinds when it starts. See its log for the error."},
		}}
	}
	return ok("it serves all kinds of certplane and cert-manager")
}

// notServed returns the names of definitions whose kinds are not served.
func (c *checker) notServed(ctx context.Context, names []string) ([]string, error) {
	groups, err := c.api.Discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	var served []string
	for _, group := range groups.Groups {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, "."+group.Name) }) {
			continue
		}
		list, err := c.api.Discovery.ServerResourcesForGroupVersionWithContext(ctx, group.PreferredVersion.GroupVersion)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			served = append(served, resource.Name+"."+group.Name)
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(served, name) }), nil
}

// newerKinds names the kinds of certificates.k8s.io that not every API server serves.
func newerKinds(ctx context.Context, c *checker) []Check {
	var missing []string
	for _, kind := range []string{"ClusterTrustBundle", "PodCertificateRequest"} {
		switch _, err := c.api.Resource(ctx, schema.GroupKind{Group: certificatesv1.GroupName, Kind: kind}); {
		case errors.Is(err, certmanager.ErrNoResource):
			missing = append(missing, kind+"s")
		case err != nil:
			return unread("the kinds that are served", err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return ok("%s are not served: '%s' explains their use", strings.Join(missing, " and "), c.Line("check", "--pre"))
}
