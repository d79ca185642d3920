package trustbundles

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/trustbundle"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/process/trusttarget"
	"github.com/certplane/certplane/internal/process/worker"
)

// problem is why a TrustBundle is not synced: the reason and the message of its condition.
type problem struct{ reason, message string }

// Error implements error.
func (p *problem) Error() string { return p.message }

func problemf(reason, format string, args ...any) error {
	return &problem{reason, fmt.Sprintf(format, args...)}
}

// problemIn returns nil for other errors.
func problemIn(err error) *problem {
	found, _ := err.(*problem)
	return found
}

const reasonNotFound, reasonNotUsable, reasonNotAdmitted = "SourceNotFound", "SourceNotUsable", "ClusterTargetNotAdmitted"

// kind returns the version of a kind that the API serves; empty if there is none.
func (r *reconciler) kind(ctx context.Context, kind string) (schema.GroupVersionKind, error) {
	version := corev1.SchemeGroupVersion
	switch kind {
	case cmv1.IssuerKind, cmv1.ClusterIssuerKind:
		version = cmv1.SchemeGroupVersion
	case clusterTrustBundle:
		served, err := worker.TrustBundles(r.Versions).Version(ctx)
		if err != nil || served == "" {
			return schema.GroupVersionKind{}, err
		}
		version = schema.GroupVersion{Group: certificatesv1.GroupName, Version: served}
	}
	return version.WithKind(kind), nil
}

// find reads objects of a kind past the cache. A name and options limit the result.
func (r *reconciler) find(ctx context.Context, kind, namespace, name string, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	of, err := r.kind(ctx, kind)
	if err != nil || of.Empty() {
		return nil, err
	}
	found, err := trusttarget.Read(ctx, r.Client, of, namespace, name, options...)
	if meta.IsNoMatchError(err) {
		err = nil
	}
	return found, err
}

// existing reads the object of a name, which must exist. Its changes wake the TrustBundle.
func (p *pass) existing(ctx context.Context, kind, namespace, name string) (*unstructured.Unstructured, error) {
	p.use(kind, namespace, name)
	found, err := p.find(ctx, kind, namespace, name)
	if err == nil && len(found) == 0 {
		err = problemf(reasonNotFound, "the %s %q does not exist", kind, name)
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// contents returns the data of a ConfigMap or Secret, or the PEM of a ClusterTrustBundle.
func contents(object *unstructured.Unstructured) map[string]string {
	if object.GetKind() == clusterTrustBundle {
		text, _, _ := unstructured.NestedString(object.Object, "spec", "trustBundle")
		return map[string]string{"": text}
	}
	return trusttarget.Data(object)
}

// readSources reads all sources. first is the first problem; err is another error.
func (p *pass) readSources(ctx context.Context) (sources []trustbundle.Source, first *problem, err error) {
	for i, s := range p.bundle.Spec.Sources {
		set := truststore.Set{}
		err := p.read(ctx, s, &set)
		found := problemIn(err)
		if found == nil && err != nil {
			return nil, nil, fmt.Errorf("reading spec.sources[%d]: %w", i, err)
		}
		source := trustbundle.Source{Name: "inLine", Renewed: s.Secret != nil || s.Issuer != nil, Failed: found != nil}
		if found == nil {
			source.Roots = set.Certificates()
		} else if first == nil {
			first = &problem{found.reason, fmt.Sprintf("spec.sources[%d]: %s", i, found.message)}
		}
		if name, err := json.Marshal(s); err == nil && s.InLine == "" {
			source.Name = string(name)
		}
		if len(source.Name) > 1024 { // the longest name in the status
			source.Name = digestOf(source.Name)
		}
		sources = append(sources, source)
	}
	return sources, first, nil
}

// read adds the certificates of a source to a set.
func (p *pass) read(ctx context.Context, s v1alpha1.TrustSource, into *truststore.Set) error {
	switch {
	case s.ConfigMap != nil:
		return p.readObjects(ctx, configMap, s.ConfigMap, into)
	case s.Secret != nil:
		return p.readObjects(ctx, secret, s.Secret, into)
	case s.ClusterTrustBundle != nil:
		object, err := p.existing(ctx, clusterTrustBundle, "", s.ClusterTrustBundle.Name)
		if err == nil {
			err = p.checkCircle(ctx, targetOf(object))
		}
		if err != nil {
			return err
		}
		return addKeys(object, "", into)
	case s.TrustBundle != nil:
		return p.readTrustBundle(ctx, s.TrustBundle.Name, into)
	case s.DefaultCAs != nil:
		if p.DefaultCAs == nil {
			return problemf(reasonNotFound, "there is no package of default CAs: the administrator can set trustManager.defaultPackage")
		}
		p.use(defaultCAs, "", "")
		_, text := p.DefaultCAs.Current()
		return addPEM(text, "defaultCAs", into)
	case s.Signer != nil:
		p.use(signer, "", s.Signer.Name)
		objects, err := p.find(ctx, clusterTrustBundle, "", "", client.MatchingFields{"spec.signerName": s.Signer.Name})
		if err == nil && len(objects) == 0 {
			err = problemf(reasonNotFound, "the signer %q has no ClusterTrustBundle", s.Signer.Name)
		}
		for i := range objects {
			err = cmp.Or(err, addKeys(&objects[i], "", into))
		}
		return err
	case s.Issuer != nil:
		return p.readIssuer(ctx, s.Issuer, into)
	}
	return addPEM(s.InLine, "inLine", into)
}

// addPEM adds the certificates in text. what names the text in errors.
func addPEM(text, what string, into *truststore.Set) error {
	blocks, err := pki.Blocks([]byte(text)) // refuses damaged blocks, which AddPEM takes for text
	if err == nil && len(blocks) == 0 {
		err = errors.New("it contains no certificate in PEM")
	}
	if err = cmp.Or(err, into.AddPEM([]byte(text))); err != nil {
		return problemf(reasonNotUsable, "%s cannot be used: %v", what, err)
	}
	return nil
}

// addKeys adds the certificates in a key of an object, in all keys by default. Problems of Secrets
// tell nothing about the content except that it cannot be used: the author of the TrustBundle
// may not be allowed to read it.
func addKeys(object *unstructured.Unstructured, key string, into *truststore.Set) error {
	data, keys := contents(object), []string{key}
	if key == "" {
		keys = slices.Sorted(maps.Keys(data))
	}
	what := fmt.Sprintf("the %s %q", object.GetKind(), object.GetName())
	for _, key := range keys {
		text, has := data[key]
		if !has {
			return problemf(reasonNotFound, "%s has no key %q", what, key)
		}
		err := addPEM(text, what, into)
		if err != nil && object.GetKind() == secret {
			err = problemf(reasonNotUsable, "%s cannot be used: it must contain certificates in PEM, and nothing else", what)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readObjects reads ConfigMaps or Secrets in the namespace.
func (p *pass) readObjects(ctx context.Context, kind string, from *v1alpha1.TrustObject, into *truststore.Set) error {
	selector, err := metav1.LabelSelectorAsSelector(cmp.Or(from.Selector, &metav1.LabelSelector{}))
	if err != nil {
		return problemf(reasonNotUsable, "selector: %v", err)
	}
	p.use(kind, p.bundle.Namespace, from.Name)
	objects, err := p.find(ctx, kind, p.bundle.Namespace, from.Name, client.MatchingLabelsSelector{Selector: selector})
	if err == nil && len(objects) == 0 && from.Selector == nil {
		err = problemf(reasonNotFound, "the %s %q does not exist", kind, from.Name)
	}
	for i := range objects {
		object := &objects[i]
		if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == trustBundle {
			if from.Selector == nil { // its roots would never go
				err = cmp.Or(err, problemf("SourceCircle", "the %s %q is a target of the TrustBundle %q", kind, object.GetName(), owner.Name))
			}
			continue
		}
		if kind == secret && from.Selector != nil {
			object.SetName("(selected)") // its name stays hidden
		}
		err = cmp.Or(err, addKeys(object, from.Key, into))
	}
	return err
}

// readIssuer reads the root of a CA issuer, or its highest CA.
func (p *pass) readIssuer(ctx context.Context, of *v1alpha1.TrustIssuer, into *truststore.Set) error {
	namespace := ""
	if of.Kind == cmv1.IssuerKind {
		namespace = p.bundle.Namespace
	}
	issuer, err := p.existing(ctx, of.Kind, namespace, of.Name)
	if err != nil {
		return err
	}
	name, _, _ := unstructured.NestedString(issuer.Object, "spec", "ca", "secretName")
	if name == "" {
		return problemf(reasonNotUsable, "the %s %q is not a CA issuer: its roots are not known", of.Kind, of.Name)
	}
	stored, err := p.existing(ctx, secret, cmp.Or(namespace, p.ClusterResources), name)
	if err != nil && problemIn(err) == nil {
		return err
	}
	var certs []*x509.Certificate
	if err == nil {
		certs, err = pki.ParseChain([]byte(contents(stored)[corev1.TLSCertKey]))
	}
	if err == nil {
		if root, err := pki.ParseFirst([]byte(contents(stored)[cmmeta.TLSCAKey])); err == nil {
			certs = append(certs, root)
		}
		chain, err := pki.BuildChain(certs)
		if err == nil {
			whole := chain.Whole()
			into.Add(whole[len(whole)-1])
			return nil
		}
	}
	return problemf(reasonNotUsable, "the %s %q has no usable CA: see its status", of.Kind, of.Name)
}

// readTrustBundle reads the roots in the first target of another TrustBundle. Their digest is in its
// status: clients that may write the target cannot add a root.
func (p *pass) readTrustBundle(ctx context.Context, name string, into *truststore.Set) error {
	if err := p.checkCircle(ctx, types.NamespacedName{Namespace: p.bundle.Namespace, Name: name}); err != nil {
		return err
	}
	other := &pass{reconciler: p.reconciler, bundle: &v1alpha1.TrustBundle{}}
	err := p.Client.Get(ctx, types.NamespacedName{Namespace: p.bundle.Namespace, Name: name}, other.bundle)
	if apierrors.IsNotFound(err) {
		return problemf(reasonNotFound, "the TrustBundle %q does not exist", name)
	}
	if err != nil {
		return err
	}
	first := other.targets()[0]
	found, err := p.find(ctx, first.kind, first.namespace, first.name)
	switch {
	case err != nil:
		return err
	case len(found) == 1 && other.controls(&found[0]) && digestOf(contents(&found[0])[first.key]) == other.bundle.Status.Digest:
		return into.AddPEM([]byte(contents(&found[0])[first.key]))
	case meta.IsStatusConditionTrue(other.bundle.Status.Conditions, v1alpha1.TrustSynced):
		return fmt.Errorf("the target of the TrustBundle %q is being written", name)
	}
	return problemf(reasonNotFound, "the TrustBundle %q has no target with its roots: see its status", name)
}

// checkCircle returns a problem if the sources of a TrustBundle lead back to the one of the pass, so
// that neither would ever lose a root.
func (p *pass) checkCircle(ctx context.Context, first types.NamespacedName) error {
	seen := map[types.NamespacedName]bool{{}: true} // a ClusterTrustBundle that is not a target
	for next := []types.NamespacedName{first}; len(next) > 0; next = next[1:] {
		key, b := next[0], &v1alpha1.TrustBundle{}
		if key == client.ObjectKeyFromObject(p.bundle) {
			return problemf("SourceCircle", "the roots of this TrustBundle come back to it through the TrustBundle %q", first.Name)
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		p.use(trustBundle, key.Namespace, key.Name)
		if err := p.Client.Get(ctx, key, b); client.IgnoreNotFound(err) != nil {
			return err
		}
		for _, s := range b.Spec.Sources {
			switch {
			case s.TrustBundle != nil:
				next = append(next, types.NamespacedName{Namespace: key.Namespace, Name: s.TrustBundle.Name})
			case s.ClusterTrustBundle != nil:
				found, err := p.find(ctx, clusterTrustBundle, "", s.ClusterTrustBundle.Name)
				if err != nil {
					return err
				}
				for i := range found {
					next = append(next, targetOf(&found[i]))
				}
			}
		}
	}
	return nil
}
