package trustbundles

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/issuance/keystorefile"
	"github.com/certplane/certplane/internal/process/worker"
)

// mostObject is the size of the data of the largest target, in bytes.
const mostObject = 900 << 10

// kindOf returns the kind of sources and targets with its version in the API.
func (r *reconciler) kindOf(ctx context.Context, kind string) (schema.GroupVersionKind, error) {
	if kind != clusterTrustBundle {
		return corev1.SchemeGroupVersion.WithKind(kind), nil
	}
	version, err := worker.TrustBundles(r.Versions).Version(ctx)
	if err == nil && version == "" {
		err = problemf(reasonNotFound, "the API has no ClusterTrustBundles")
	}
	return schema.GroupVersionKind{Group: certificatesv1.GroupName, Version: version, Kind: kind}, err
}

// fetch reads a source or target past the cache. It returns nil if there is none.
func (r *reconciler) fetch(ctx context.Context, kind string, key types.NamespacedName) (*unstructured.Unstructured, error) {
	of, err := r.kindOf(ctx, kind)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(of)
	if err := r.Client.Get(ctx, key, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return object, nil
}

// list lists sources or targets, sorted by name.
func (r *reconciler) list(ctx context.Context, kind string, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	of, err := r.kindOf(ctx, kind)
	if err != nil {
		return nil, err
	}
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(of.GroupVersion().WithKind(kind + "List"))
	err = r.Client.List(ctx, all, options...)
	return all.Items, err
}

// contents returns the data of a ConfigMap or Secret, or the PEM of a ClusterTrustBundle under
// an empty key.
func contents(object *unstructured.Unstructured) map[string]string {
	if object.GetKind() == clusterTrustBundle {
		text, _, _ := unstructured.NestedString(object.Object, "spec", "trustBundle")
		return map[string]string{"": text}
	}
	all := map[string]string{}
	for _, field := range []string{"binaryData", "data"} {
		values, _, _ := unstructured.NestedStringMap(object.Object, field)
		for key, value := range values {
			if field == "binaryData" || object.GetKind() == secret {
				decoded, _ := base64.StdEncoding.DecodeString(value) // the API encodes it
				value = string(decoded)
			}
			all[key] = value
		}
	}
	return all
}

// target is an object that gets the roots.
type target struct {
	kind string
	types.NamespacedName
	spec v1alpha1.TrustTargetObject // of a ConfigMap or Secret
	// object is the stored object; nil if there is none. mine reports whether the TrustBundle
	// controls it.
	object *unstructured.Unstructured
	mine   bool
}

// targets reads the targets of a TrustBundle. Their changes wake the TrustBundle of the pass.
func (p *pass) targets(ctx context.Context, of *v1alpha1.TrustBundle) (targets []target, err error) {
	add := func(kind string, spec *v1alpha1.TrustTargetObject) {
		if spec != nil {
			name := spec.Name
			if name == "" {
				name = of.Name
			}
			targets = append(targets, target{kind: kind, NamespacedName: types.NamespacedName{Namespace: of.Namespace, Name: name}, spec: *spec})
		}
	}
	add(configMap, of.Spec.Target.ConfigMap)
	add(secret, of.Spec.Target.Secret)
	if cluster := of.Spec.Target.ClusterTrustBundle; cluster != nil {
		targets = append(targets, target{kind: clusterTrustBundle, NamespacedName: types.NamespacedName{Name: cluster.Name}})
	}
	for i := range targets {
		t := &targets[i]
		p.use(t.kind, t.Namespace, t.Name)
		if t.object, err = p.fetch(ctx, t.kind, t.NamespacedName); err != nil && problemIn(err) == nil {
			return nil, fmt.Errorf("reading the target %s %s: %w", t.kind, t.Name, err)
		}
		t.mine = t.object != nil && controls(of, t.object)
	}
	return targets, nil
}

// controls reports whether an object is a target of a TrustBundle. A ClusterTrustBundle cannot
// have it as an owner, because it has a namespace.
func controls(of *v1alpha1.TrustBundle, object *unstructured.Unstructured) bool {
	labels := object.GetLabels()
	return metav1.IsControlledBy(object, of) || object.GetKind() == clusterTrustBundle &&
		labels[v1alpha1.TrustBundleLabel] == of.Name && labels[v1alpha1.TrustBundleNamespaceLabel] == of.Namespace
}

// pem returns the roots in a target that the TrustBundle controls.
func (t *target) pem() string {
	if !t.mine {
		return ""
	}
	return contents(t.object)[t.spec.Key]
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// write has a target contain the roots and nothing else. It overwrites no object that the
// TrustBundle does not control: the API refuses writes if another client has created or changed
// the object since it was read.
func (p *pass) write(ctx context.Context, t target, certs []*x509.Certificate, text string) error {
	switch {
	case t.kind == secret && !p.Settings.SecretTargets:
		return problemf(reasonNoSecrets, "spec.target.secret: certplane's configuration (trustBundles.secretTargets) does not permit Secrets as targets")
	case t.object != nil && !t.mine:
		return problemf(reasonTaken, "the %s %q exists, and this TrustBundle does not control it: delete it, or choose another name for the target", t.kind, t.Name)
	case t.kind == clusterTrustBundle:
		if admitted, err := p.Admitted(p.bundle); err != nil {
			return err
		} else if !admitted {
			return problemf(reasonUnchecked, "spec.target.clusterTrustBundle: the webhook trust.%s has not checked that the author may write the ClusterTrustBundle %q: install it, then write the TrustBundle again", v1alpha1.GroupName, t.Name)
		}
	}
	wanted, err := p.wanted(ctx, t, certs, text)
	if err != nil || t.object != nil && equality.Semantic.DeepEqual(t.object.Object, wanted.Object) {
		return err
	}
	if err := p.limit.Wait(ctx); err != nil {
		return err
	}
	p.changed = true
	if t.object == nil {
		return p.Client.Create(ctx, wanted, client.FieldOwner(Component))
	}
	return p.Client.Update(ctx, wanted, client.FieldOwner(Component))
}

// wanted returns the object that a target should be.
func (p *pass) wanted(ctx context.Context, t target, certs []*x509.Certificate, text string) (*unstructured.Unstructured, error) {
	wanted, stored := &unstructured.Unstructured{Object: map[string]any{}}, map[string]string{}
	if t.object != nil {
		wanted, stored = t.object.DeepCopy(), contents(t.object)
	} else {
		of, err := p.kindOf(ctx, t.kind)
		if err != nil {
			return nil, err
		}
		wanted.SetGroupVersionKind(of)
		wanted.SetNamespace(t.Namespace)
		wanted.SetName(t.Name)
		if t.Namespace != "" {
			wanted.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(p.bundle, v1alpha1.GroupVersion.WithKind(trustBundle))})
		}
	}
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, wanted.GetLabels())
	maps.Copy(annotations, wanted.GetAnnotations())
	labels[v1alpha1.TrustBundleLabel], labels[v1alpha1.TrustBundleNamespaceLabel] = p.bundle.Name, p.bundle.Namespace
	annotations[v1alpha1.TrustDigestAnnotation] = digestOf(text)
	wanted.SetLabels(labels)
	wanted.SetAnnotations(annotations)
	if t.kind == clusterTrustBundle {
		wanted.Object["spec"] = map[string]any{"trustBundle": text}
		return wanted, nil
	}
	binary, size := map[string]any{}, len(text)
	for _, f := range t.spec.Formats {
		encoded, err := encode(f, certs, stored[f.Key])
		if err != nil {
			return nil, problemf("Sync"+t.kind+"TargetFailed", "making the key %q: %v", f.Key, err)
		}
		binary[f.Key], size = base64.StdEncoding.EncodeToString(encoded), size+len(encoded)
	}
	if size > mostObject {
		return nil, problemf(reasonTooLarge, "the %s %q would have %d bytes, more than %d: leave out formats or roots", t.kind, t.Name, size, mostObject)
	}
	if t.kind == secret {
		binary[t.spec.Key] = base64.StdEncoding.EncodeToString([]byte(text))
		wanted.Object["data"] = binary
		return wanted, nil
	}
	wanted.Object["data"] = map[string]any{t.spec.Key: text}
	if delete(wanted.Object, "binaryData"); len(binary) > 0 {
		wanted.Object["binaryData"] = binary
	}
	return wanted, nil
}

// prune deletes the targets of a TrustBundle, except those in keep.
func (r *reconciler) prune(ctx context.Context, of *v1alpha1.TrustBundle, keep []target) error {
	for _, kind := range []string{configMap, secret, clusterTrustBundle} {
		if kind == secret && !r.Settings.SecretTargets {
			continue
		}
		options := []client.ListOption{client.MatchingLabels{v1alpha1.TrustBundleLabel: of.Name, v1alpha1.TrustBundleNamespaceLabel: of.Namespace}}
		if kind != clusterTrustBundle {
			options = append(options, client.InNamespace(of.Namespace))
		}
		all, err := r.list(ctx, kind, options...)
		if err != nil && problemIn(err) == nil {
			return fmt.Errorf("listing former targets: %w", err)
		}
		for i := range all {
			object := &all[i]
			kept := slices.ContainsFunc(keep, func(t target) bool { return t.kind == kind && t.Name == object.GetName() })
			if kept || !controls(of, object) {
				continue
			}
			if err := client.IgnoreNotFound(r.Client.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())})); err != nil {
				return fmt.Errorf("deleting a former target: %w", err)
			}
		}
	}
	return nil
}
