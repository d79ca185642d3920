package trustbundles

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/issuance/keystorefile"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/trusttarget"
	"github.com/certplane/certplane/internal/process/worker"
)

// mostBytes limits the size of a target, in bytes of roots and keystores.
const mostBytes = 900 << 10

// target is an object that gets the roots. key is its key for PEM; a ClusterTrustBundle has none.
// reason is that of the condition if the target cannot be written.
type target struct {
	kind, namespace, name, key, reason string

	formats []v1alpha1.TrustFormat
	stored  *unstructured.Unstructured // nil if the object does not exist
}

// targets returns the targets of the TrustBundle, at least one.
func (p *pass) targets() (all []*target) {
	to := ptr.Deref(p.bundle.Spec.Target, v1alpha1.TrustTarget{ConfigMap: &v1alpha1.TrustKeys{}})
	add := func(kind, reason string, keys *v1alpha1.TrustKeys) {
		if keys != nil {
			all = append(all, &target{kind: kind, reason: reason, namespace: p.bundle.Namespace, name: cmp.Or(keys.Name, p.bundle.Name), key: cmp.Or(keys.Key, "ca.crt"), formats: keys.Formats})
		}
	}
	add(configMap, "SyncConfigMapTargetFailed", to.ConfigMap)
	add(secret, "SyncSecretTargetFailed", to.Secret)
	if to.ClusterTrustBundle != nil {
		all = append(all, &target{kind: clusterTrustBundle, reason: "SyncClusterTrustBundleTargetFailed", name: to.ClusterTrustBundle.Name})
	}
	return all
}

// targetOf returns the TrustBundle that controls a ClusterTrustBundle; empty if there is none. An
// object of a namespace cannot own it, so labels name the owner.
func targetOf(object *unstructured.Unstructured) types.NamespacedName {
	labels := object.GetLabels()
	namespace, name := labels[v1alpha1.TrustNamespaceLabel], labels[v1alpha1.TrustBundleLabel]
	if namespace == "" || name == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// controls reports whether the TrustBundle controls an object.
func (p *pass) controls(object *unstructured.Unstructured) bool {
	if object.GetKind() == clusterTrustBundle {
		return targetOf(object) == client.ObjectKeyFromObject(p.bundle)
	}
	return metav1.IsControlledBy(object, p.bundle)
}

// readTargets reads the targets, and returns the roots in those that the TrustBundle controls.
func (p *pass) readTargets(ctx context.Context) (all []*target, stored []*x509.Certificate, err error) {
	set := truststore.Set{}
	all = p.targets()
	for _, t := range all {
		if t.stored, err = p.existing(ctx, t.kind, t.namespace, t.name); err != nil && problemIn(err) == nil {
			return nil, nil, fmt.Errorf("reading the %s %q: %w", t.kind, t.name, err)
		}
		if t.stored != nil && p.controls(t.stored) {
			_ = set.AddPEM([]byte(contents(t.stored)[t.key])) // another client may have damaged it
		}
	}
	return all, set.Certificates(), nil
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// writeTargets has each target contain the roots. One that fails does not stop the others. found is
// the first failure that a change of an object must solve.
func (p *pass) writeTargets(ctx context.Context, all []*target, roots []*x509.Certificate, text string) (found *problem, err error) {
	for _, t := range all {
		failed := p.write(ctx, t, roots, text)
		refused := problemIn(failed)
		switch {
		case failed == nil, refused != nil:
		case worker.IsRefused(failed):
			refused = &problem{t.reason, fmt.Sprintf("Cannot write the %s %q: %s", t.kind, t.name, eventtext.Line(failed.Error()))}
		default:
			err = cmp.Or(err, fmt.Errorf("writing the %s %q: %w", t.kind, t.name, failed))
		}
		found = cmp.Or(found, refused)
	}
	return found, err
}

// write has a target contain the roots and nothing else. It overwrites no object that the
// TrustBundle does not control: the API refuses the write if another client has created or
// changed the object since it was read.
func (p *pass) write(ctx context.Context, t *target, roots []*x509.Certificate, text string) error {
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	switch {
	case t.kind == secret && !p.Settings.SecretTargets:
		return problemf("SecretTargetsDisabled", "Secrets are not written here: remove spec.target.secret, or ask the administrator to set trustBundles.secretTargets")
	case t.stored == nil:
		kind, err := p.kind(ctx, t.kind)
		if err == nil && kind.Empty() {
			err = problemf("NotServed", "The API does not serve ClusterTrustBundles: remove spec.target.clusterTrustBundle")
		}
		if err != nil {
			return err
		}
		wanted.SetGroupVersionKind(kind)
		wanted.SetNamespace(t.namespace)
		wanted.SetName(t.name)
		if t.kind != clusterTrustBundle {
			wanted.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(p.bundle, v1alpha1.GroupVersion.WithKind(trustBundle))})
		}
	case !p.controls(t.stored):
		field := strings.ToLower(t.kind[:1]) + t.kind[1:]
		return problemf("TargetTaken", "The %s %q exists, and this TrustBundle does not control it: delete it, or set another spec.target.%s.name", t.kind, t.name, field)
	default:
		wanted = t.stored.DeepCopy()
	}
	err := cmp.Or(
		unstructured.SetNestedField(wanted.Object, p.bundle.Name, "metadata", "labels", v1alpha1.TrustBundleLabel),
		unstructured.SetNestedField(wanted.Object, digestOf(text), "metadata", "annotations", v1alpha1.TrustDigestAnnotation),
	)
	if err == nil && t.kind == clusterTrustBundle {
		err = unstructured.SetNestedField(wanted.Object, p.bundle.Namespace, "metadata", "labels", v1alpha1.TrustNamespaceLabel)
	}
	if err = cmp.Or(err, t.fill(wanted, roots, text)); err != nil {
		return err
	}
	if t.stored != nil && equality.Semantic.DeepEqual(t.stored.Object, wanted.Object) {
		return nil
	}
	if err := p.limit.Wait(ctx); err != nil {
		return err
	}
	p.changed = true
	if t.stored == nil {
		return p.Client.Create(ctx, wanted, client.FieldOwner(Component))
	}
	return p.Client.Update(ctx, wanted, client.FieldOwner(Component))
}

// fill sets the content of a target that has the former content.
func (t *target) fill(wanted *unstructured.Unstructured, roots []*x509.Certificate, text string) error {
	if t.kind == clusterTrustBundle {
		wanted.Object["spec"] = map[string]any{"trustBundle": text}
		return nil
	}
	stores, size := map[string][]byte{}, len(text)
	for _, format := range t.formats {
		store, err := keystore(format, roots, []byte(contents(wanted)[format.Key]))
		if err != nil {
			return problemf(t.reason, "Cannot encode the keystore %q: %v", format.Key, err)
		}
		stores[format.Key], size = store, size+len(store)
	}
	if size > mostBytes {
		return problemf("TooLarge", "The %s %q would have %d bytes: at most %d are possible", t.kind, t.name, size, mostBytes)
	}
	err := trusttarget.SetData(wanted, map[string]string{t.key: text}, stores)
	if len(stores) == 0 {
		delete(wanted.Object, "binaryData") // as the API returns it
	}
	return err
}

// keystore returns a keystore of the roots: the former one if it is equal but for its random numbers.
func keystore(format v1alpha1.TrustFormat, roots []*x509.Certificate, former []byte) ([]byte, error) {
	if format.Format == "JKS" {
		return keystorefile.RootsJKS(roots, cmp.Or(format.Password, "changeit"))
	}
	profile := cmp.Or(cmv1.PKCS12Profile(format.Profile), cmv1.Modern2023PKCS12Profile)
	if format.Password != "" && keystorefile.HasPKCS12Trust(former, keystorefile.Pair{CAs: roots}, profile, format.Password) {
		return former, nil
	}
	return keystorefile.RootsPKCS12(roots, profile, format.Password)
}

// prune deletes the objects that the TrustBundle controls, except the targets to keep.
func (p *pass) prune(ctx context.Context, keep []*target) (err error) {
	for kind, namespace := range map[string]string{configMap: p.bundle.Namespace, secret: p.bundle.Namespace, clusterTrustBundle: ""} {
		if kind == secret && !p.Settings.SecretTargets {
			continue
		}
		all, failed := p.find(ctx, kind, namespace, "", client.MatchingLabels{v1alpha1.TrustBundleLabel: p.bundle.Name})
		for i := range all {
			kept := slices.ContainsFunc(keep, func(t *target) bool { return t.kind == kind && t.name == all[i].GetName() })
			if failed == nil && !kept && p.controls(&all[i]) {
				failed = client.IgnoreNotFound(p.Client.Delete(ctx, &all[i], client.Preconditions{UID: ptr.To(all[i].GetUID())}))
			}
		}
		err = cmp.Or(err, failed)
	}
	return err
}
