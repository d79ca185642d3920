package trustbundles

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/trustbundle"
	"github.com/certplane/certplane/internal/policy/truststore"
)

// problem is why a TrustBundle is not synced: the reason and the message of its condition.
type problem struct{ reason, message string }

// Error implements error.
func (p *problem) Error() string { return p.message }

func problemf(reason, format string, args ...any) error {
	return &problem{reason, fmt.Sprintf(format, args...)}
}

// problemIn returns the problem in an error, nil if it is another error.
func problemIn(err error) (found *problem) {
	errors.As(err, &found)
	return found
}

// Reasons of the condition Synced.
const (
	reasonSynced    = "Synced"
	reasonNotFound  = "SourceNotFound"
	reasonNotUsable = "SourceNotUsable"
	reasonCircle    = "SourceCircle"
	reasonTooMany   = "TooMany"
	reasonTooLarge  = "TooLarge"
	reasonTaken     = "TargetTaken"
	reasonNoSecrets = "SecretTargetsDisabled"
)

// mostSourceName is the length of the longest name of a source in the status.
const mostSourceName = 1024

// sourceName identifies a source in the status. It does not depend on what the source contains.
func sourceName(s v1alpha1.TrustSource) string {
	if s.InLine != "" {
		return "inLine"
	}
	name, err := json.Marshal(s)
	if err != nil || len(name) > mostSourceName {
		return digestOf(string(name))
	}
	return string(name)
}

// readSources reads all sources. first is the first problem; err is another error.
func (p *pass) readSources(ctx context.Context) (sources []trustbundle.Source, first *problem, err error) {
	for i, s := range p.bundle.Spec.Sources {
		set := truststore.Set{}
		err := p.read(ctx, s, &set)
		found := problemIn(err)
		switch {
		case found != nil && first == nil:
			first = &problem{found.reason, fmt.Sprintf("spec.sources[%d]: %s", i, found.message)}
		case found == nil && err != nil:
			return nil, nil, fmt.Errorf("reading spec.sources[%d]: %w", i, err)
		}
		source := trustbundle.Source{Name: sourceName(s), Renewed: s.Secret != nil || s.Issuer != nil, Failed: found != nil}
		if found == nil {
			source.Roots = set.Certificates()
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
		object, err := p.existing(ctx, clusterTrustBundle, types.NamespacedName{Name: s.ClusterTrustBundle.Name})
		return errors.Join(err, addKeys(object, nil, into))
	case s.Signer != nil:
		p.use(signer, "", s.Signer.Name)
		objects, err := p.list(ctx, clusterTrustBundle, client.MatchingFields{"spec.signerName": s.Signer.Name})
		if err == nil && len(objects) == 0 {
			err = problemf(reasonNotFound, "the signer %q has no ClusterTrustBundle", s.Signer.Name)
		}
		for i := range objects {
			err = errors.Join(err, addKeys(&objects[i], nil, into))
		}
		return err
	case s.Issuer != nil:
		return p.readIssuer(ctx, s.Issuer, into)
	}
	return addPEM(s.InLine, "inLine", into)
}

// addPEM adds the certificates in text. what names the text in errors.
func addPEM(text, what string, into *truststore.Set) error {
	before := into.Len()
	_, err := pki.Blocks([]byte(text)) // refuses damaged blocks, which AddPEM takes for text
	if err == nil {
		err = into.AddPEM([]byte(text))
	}
	if err == nil && into.Len() == before && !strings.Contains(text, "-----BEGIN ") {
		err = errors.New("it contains no certificate")
	}
	if err != nil {
		return problemf(reasonNotUsable, "%s cannot be used: %v", what, err)
	}
	return nil
}

// addKeys adds the certificates in keys of an object, in all keys by default. Problems of Secrets
// tell nothing about the content except that it cannot be used: the author of the TrustBundle
// may not be allowed to read it.
func addKeys(object *unstructured.Unstructured, keys []string, into *truststore.Set) error {
	if object == nil {
		return nil
	}
	data := contents(object)
	if keys == nil {
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
	var objects []unstructured.Unstructured
	if from.Selector == nil {
		object, err := p.existing(ctx, kind, types.NamespacedName{Namespace: p.bundle.Namespace, Name: from.Name})
		if err != nil {
			return err
		}
		objects = append(objects, *object)
	} else {
		p.use(kind, p.bundle.Namespace, "")
		selector, err := metav1.LabelSelectorAsSelector(from.Selector)
		if err != nil {
			return problemf(reasonNotUsable, "selector: %v", err)
		}
		if objects, err = p.list(ctx, kind, client.InNamespace(p.bundle.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return err
		}
	}
	var keys []string
	if !from.AllKeys {
		keys = []string{from.Key}
	}
	for i := range objects {
		object := &objects[i]
		switch owner := metav1.GetControllerOf(object); {
		case owner != nil && owner.Kind == trustBundle && from.Selector != nil:
			continue
		case owner != nil && owner.UID == p.bundle.UID:
			return problemf(reasonCircle, "the %s %q is also the target", kind, object.GetName())
		case owner != nil && owner.Kind == trustBundle:
			return problemf(reasonNotUsable, "the %s %q is a target of the TrustBundle %q: set trustBundle instead", kind, object.GetName(), owner.Name)
		}
		if kind == secret && from.Selector != nil {
			object.SetName("(selected)") // its name stays hidden
		}
		if err := addKeys(object, keys, into); err != nil {
			return err
		}
	}
	return nil
}

// existing reads an object, whose changes wake the TrustBundle from now on. One that does not
// exist is a problem.
func (p *pass) existing(ctx context.Context, kind string, key types.NamespacedName) (*unstructured.Unstructured, error) {
	p.use(kind, key.Namespace, key.Name)
	object, err := p.fetch(ctx, kind, key)
	if err == nil && object == nil {
		err = problemf(reasonNotFound, "the %s %q does not exist", kind, key.Name)
	}
	return object, err
}

// readTyped is existing for kinds whose fields are read.
func (p *pass) readTyped(ctx context.Context, kind string, key types.NamespacedName, into client.Object) error {
	p.use(kind, key.Namespace, key.Name)
	err := p.Client.Get(ctx, key, into)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return problemf(reasonNotFound, "the %s %q does not exist", kind, key.Name)
	}
	return err
}

// readIssuer reads the root of a CA issuer, or its highest CA.
func (p *pass) readIssuer(ctx context.Context, of *v1alpha1.TrustIssuer, into *truststore.Set) error {
	var issuer cmv1.GenericIssuer = &cmv1.ClusterIssuer{}
	key := types.NamespacedName{Name: of.Name}
	if of.Kind == cmv1.IssuerKind {
		issuer, key.Namespace = &cmv1.Issuer{}, p.bundle.Namespace
	}
	if err := p.readTyped(ctx, of.Kind, key, issuer); err != nil {
		return err
	}
	if issuer.GetSpec().CA == nil {
		return problemf(reasonNotUsable, "the %s %q is not a CA issuer: its roots are not known", of.Kind, of.Name)
	}
	stored := &corev1.Secret{}
	named := types.NamespacedName{Namespace: certmanager.SecretNamespace(issuer, p.ClusterResources), Name: issuer.GetSpec().CA.SecretName}
	err := p.readTyped(ctx, secret, named, stored)
	if highest := highestCA(stored); highest != nil {
		into.Add(highest)
	} else if err == nil || problemIn(err) != nil {
		err = problemf(reasonNotUsable, "the %s %q has no usable CA: see its status", of.Kind, of.Name)
	}
	return err
}

// highestCA returns the root of the CA in a Secret, or the highest CA; nil if there is none.
func highestCA(stored *corev1.Secret) *x509.Certificate {
	certs, err := pki.ParseChain(stored.Data[corev1.TLSCertKey])
	if err != nil {
		return nil
	}
	if root, err := pki.ParseFirst(stored.Data[cmmeta.TLSCAKey]); err == nil {
		certs = append(certs, root)
	}
	chain, err := pki.BuildChain(certs)
	if err != nil {
		return nil
	}
	whole := chain.Whole()
	return whole[len(whole)-1]
}

