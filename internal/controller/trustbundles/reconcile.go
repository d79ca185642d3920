package trustbundles

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/trustbundle"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// mostRoots and mostPEM limit the result of a TrustBundle, in certificates and bytes.
	mostRoots, mostPEM = 1000, 512 << 10
)

// pass is one look at a TrustBundle.
type pass struct {
	*reconciler
	bundle  *v1alpha1.TrustBundle
	now     time.Time
	changed bool // the target was written
}

// Reconcile makes the targets of a TrustBundle what they should be.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p := &pass{reconciler: r, bundle: &v1alpha1.TrustBundle{}, now: r.Clock.Now()}
	err := r.Client.Get(ctx, request.NamespacedName, p.bundle)
	switch {
	case apierrors.IsNotFound(err):
		r.mu.Lock()
		maps.DeleteFunc(r.uses, func(u use, _ bool) bool { return u.by == request.NamespacedName })
		r.mu.Unlock()
		r.wake(func(u use) bool { return u.includes(trustBundle, request.NamespacedName) })
		p.bundle.Namespace, p.bundle.Name = request.Namespace, request.Name
		return reconcile.Result{}, p.prune(ctx, nil) // only ClusterTrustBundles can be left
	case err != nil, p.bundle.DeletionTimestamp != nil:
		return reconcile.Result{}, err
	}
	return worker.Kept(p.run(ctx))
}

// use records that the TrustBundle uses an object: its changes wake the TrustBundle from now on.
// A former use causes at most a pass without writes.
func (p *pass) use(kind, namespace, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uses[use{client.ObjectKeyFromObject(p.bundle), kind, namespace, name}] = true
}

func (p *pass) run(ctx context.Context) (again time.Duration, err error) {
	if p.notAdmitted() {
		return worker.RefusedPause, p.report(ctx, &problem{reasonNotAdmitted, "spec.target.clusterTrustBundle: the rights of its author were not checked: enable the webhook, then change the spec"}, "")
	}
	if many, err := p.tooMany(ctx); err != nil || many != nil {
		return worker.RefusedPause, cmp.Or(err, p.report(ctx, many, ""))
	}
	targets, stored, err := p.readTargets(ctx)
	if err != nil {
		return 0, err
	}
	sources, found, err := p.readSources(ctx)
	if err != nil {
		return 0, err
	}
	former, complete := p.former(stored, sources)
	rules := p.rules()
	roots, certs := decide(former, sources, rules, p.now)
	text := string(pki.EncodeCertificates(certs...))
	if len(roots) > mostRoots || len(text) > mostPEM {
		found = &problem{reason: "TooLarge", message: fmt.Sprintf("The sources have %d certificates of %d bytes: at most %d of %d bytes are possible", len(roots), len(text), mostRoots, mostPEM)}
		for i := range sources { // former roots go as usual, and no new ones come
			sources[i].Roots, sources[i].Failed = nil, true
		}
		roots, certs = decide(former, sources, rules, p.now)
		text = string(pki.EncodeCertificates(certs...))
	}
	switch {
	case found != nil && !complete:
		return worker.RefusedPause, p.report(ctx, found, "")
	case len(roots) == 0:
		isDistrusted := func(cert *x509.Certificate) bool { return slices.Contains(rules.Distrusted, pki.Fingerprint(cert)) }
		if slices.ContainsFunc(stored, isDistrusted) {
			err = p.prune(ctx, nil)
		}
		found = cmp.Or(found, &problem{reasonNotFound, "No certificate of the sources is left after spec.filter and spec.distrusted"})
		return worker.RefusedPause, cmp.Or(err, p.report(ctx, found, ""))
	}
	// The status lists a root first, so that it gets its overlap whenever the process ends.
	if p.listRoots(roots) {
		if err := p.Client.Status().Update(ctx, p.bundle, client.FieldOwner(Component)); err != nil {
			return 0, err
		}
	}
	digest := ""
	failed, err := p.writeTargets(ctx, targets, certs, text)
	switch {
	case worker.IsTooLate(err):
		return 0, nil // the namespace is being deleted
	case err != nil:
		return 0, err
	case failed != nil:
		found = failed
	default:
		digest = digestOf(text)
		if c := meta.FindStatusCondition(p.bundle.Status.Conditions, v1alpha1.TrustSynced); c == nil || c.ObservedGeneration != p.bundle.Generation {
			if err := p.prune(ctx, targets); err != nil {
				return 0, fmt.Errorf("deleting former targets: %w", err)
			}
		}
	}
	synced := fmt.Sprintf("The %s %q has the roots of all sources", targets[0].kind, targets[0].name)
	if len(targets) > 1 {
		synced = fmt.Sprintf("%d targets have the roots of all sources", len(targets))
	}
	found = cmp.Or(found, &problem{v1alpha1.TrustSynced, synced})
	if next := trustbundle.Change(roots, rules); !next.IsZero() {
		again = max(next.Sub(p.now), time.Second)
	}
	if found.reason != v1alpha1.TrustSynced && (again == 0 || again > worker.RefusedPause) {
		again = worker.RefusedPause
	}
	return again, p.report(ctx, found, digest)
}

// notAdmitted reports whether the author of a ClusterTrustBundle was not checked. The first pass over
// a generation decides for the later ones: the webhook does not admit what was stored without it.
func (p *pass) notAdmitted() bool {
	c := meta.FindStatusCondition(p.bundle.Status.Conditions, v1alpha1.TrustSynced)
	if c != nil && c.ObservedGeneration == p.bundle.Generation {
		return c.Reason == reasonNotAdmitted
	}
	return !p.Admitted && p.bundle.Spec.Target != nil && p.bundle.Spec.Target.ClusterTrustBundle != nil
}

// decide returns the next roots, and their certificates.
func decide(former []trustbundle.Root, sources []trustbundle.Source, rules trustbundle.Rules, now time.Time) (roots []trustbundle.Root, certs []*x509.Certificate) {
	roots = trustbundle.Next(former, sources, rules, now)
	for _, root := range roots {
		certs = append(certs, root.Certificate)
	}
	return roots, certs
}

// tooMany returns a problem if the namespace has as many older TrustBundles as it may have.
func (p *pass) tooMany(ctx context.Context) (*problem, error) {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(trustBundle + "List"))
	if err := p.bundles.List(ctx, all, client.InNamespace(p.bundle.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("counting TrustBundles: %w", err)
	}
	older := 0
	for i := range all.Items {
		if c := all.Items[i].CreationTimestamp.Compare(p.bundle.CreationTimestamp.Time); c < 0 || c == 0 && all.Items[i].Name < p.bundle.Name {
			older++
		}
	}
	if older < p.Settings.PerNamespace {
		return nil, nil
	}
	p.use(trustBundle, p.bundle.Namespace, "")
	return &problem{reason: "TooMany", message: fmt.Sprintf("The namespace has %d older TrustBundles: at most %d are possible", older, p.Settings.PerNamespace)}, nil
}

func (p *pass) rules() trustbundle.Rules {
	spec := p.bundle.Spec
	rules := trustbundle.Rules{
		Overlap: ptr.Deref(spec.Overlap, metav1.Duration{}).Duration,
		Filter:  truststore.Filter{Expired: ptr.Deref(spec.Filter.Expired, true), NonCA: ptr.Deref(spec.Filter.NonCA, true)},
	}
	for _, text := range spec.Distrusted {
		rules.Distrusted = append(rules.Distrusted, strings.ToLower(strings.ReplaceAll(text, ":", "")))
	}
	return rules
}

// former returns the roots of the last pass: those in the status, whose certificates are stored
// in the target or, if they are retired, in the status. A client that may write only the target
// cannot add one. complete means that there was a pass, and that no root is missing. If the
// status was lost, all stored certificates count as roots that a renewal has removed.
func (p *pass) former(stored []*x509.Certificate, sources []trustbundle.Source) (roots []trustbundle.Root, complete bool) {
	status, known := p.bundle.Status, map[string]*x509.Certificate{}
	for _, cert := range stored {
		known[pki.Fingerprint(cert)] = cert
		for _, source := range sources {
			if status.Digest == "" && len(status.Roots) == 0 && source.Renewed {
				roots = append(roots, trustbundle.Root{Certificate: cert, Source: source.Name})
			}
		}
	}
	complete = status.Digest != ""
	for _, listed := range status.Roots {
		root := trustbundle.Root{Certificate: known[listed.Fingerprint], Source: listed.Source}
		if cert, err := x509.ParseCertificate(listed.Certificate); err == nil {
			root.Certificate = cert
		}
		if listed.RetiredUntil != nil {
			root.RetiredUntil = listed.RetiredUntil.Time
		}
		if root.Certificate != nil {
			roots = append(roots, root)
		} else {
			complete = false
		}
	}
	return roots, complete
}

// listRoots lists the roots in the status, and reports whether that changes it.
func (p *pass) listRoots(roots []trustbundle.Root) bool {
	var listed []v1alpha1.TrustRoot
	for _, root := range roots {
		one := v1alpha1.TrustRoot{
			Fingerprint: pki.Fingerprint(root.Certificate), Subject: strings.ToValidUTF8(fmt.Sprintf("%.256s", root.Certificate.Subject), "?"),
			NotAfter: metav1.NewTime(root.Certificate.NotAfter), Source: root.Source,
		}
		if !root.RetiredUntil.IsZero() {
			one.RetiredUntil, one.Certificate = ptr.To(metav1.NewTime(root.RetiredUntil.Truncate(time.Second))), root.Certificate.Raw
		}
		listed = append(listed, one)
	}
	if equality.Semantic.DeepEqual(p.bundle.Status.Roots, listed) {
		return false
	}
	p.bundle.Status.Roots, p.bundle.Status.RootCount = listed, int32(len(listed))
	return true
}

// report sets the condition and the digest of the target, empty if it has not changed, and
// records an Event if something has changed.
func (p *pass) report(ctx context.Context, found *problem, digest string) error {
	if found == nil {
		return nil
	}
	condition := metav1.Condition{
		Type: v1alpha1.TrustSynced, Status: metav1.ConditionFalse, Reason: found.reason, Message: eventtext.Fit(found.message + "."),
		ObservedGeneration: p.bundle.Generation, LastTransitionTime: metav1.NewTime(p.now),
	}
	kind, action := corev1.EventTypeWarning, "SyncFailed"
	if found.reason == v1alpha1.TrustSynced {
		condition.Status, kind, action = metav1.ConditionTrue, corev1.EventTypeNormal, v1alpha1.TrustSynced
	}
	status := &p.bundle.Status
	before := ptr.Deref(meta.FindStatusCondition(status.Conditions, condition.Type), metav1.Condition{})
	changed := meta.SetStatusCondition(&status.Conditions, condition)
	if digest != "" && digest != status.Digest {
		status.Digest, changed = digest, true
	}
	if changed {
		defer p.wake(func(u use) bool { return u.includes(trustBundle, client.ObjectKeyFromObject(p.bundle)) })
		if err := p.Client.Status().Update(ctx, p.bundle, client.FieldOwner(Component)); err != nil {
			return err
		}
	}
	if before.Reason != condition.Reason || before.Message != condition.Message || p.changed {
		p.Events.Eventf(p.bundle, nil, kind, condition.Reason, action, "%s", condition.Message)
	}
	return nil
}
