package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/check"
	"github.com/certplane/certplane/internal/client/cli/exit"
)

// controllersName is the name of the Deployment of certplane's controllers, of its account and of
// its ConfigMap.
const controllersName = "certplane-controllers"

// Times of a move.
const (
	pollEvery = 2 * time.Second
	// patience is how long a change may take to have its effect: twice the lease of a leader
	// that was killed, and the start of pods.
	patience = 5 * time.Minute
	// settling is how long objects that a step has taken away must stay away: tools that keep
	// objects put them back sooner.
	settling = time.Minute
	// watching is how long the new controllers work before the old webhook goes.
	watching = 10 * time.Minute
)

// step is a step of the move. At every moment, each webhook configuration with the policy Fail
// has a ready pod behind it, and one for the program's objects is installed.
type step struct {
	number int
	title  string
	// done reports whether the cluster shows that the step was taken.
	done func(*mover, context.Context, *state) (bool, error)
	// do takes the step and returns when the cluster shows its effect. It can be repeated.
	do func(*mover, context.Context, *state) error
	// manual are the commands that take the step without this program.
	manual func(*mover, *state) []string
}

// steps are the steps, in their order.
var steps = []step{
	{1, "Update the definitions of its kinds", (*mover).areDefined, (*mover).define, (*mover).manualDefine},
	{2, "Install certplane: it waits for the leases", (*mover).isInstalled, (*mover).install, (*mover).manualInstall},
	{3, "Compare again, now with certplane installed", (*mover).isCompared, (*mover).compare, (*mover).manualCompare},
	{4, "Stop its controllers: certplane takes the leases", (*mover).isStopped, (*mover).stop, (*mover).manualStop},
	{5, "Watch certplane for ten minutes, and verify", (*mover).isVerified, (*mover).watch, (*mover).manualCompare},
	{6, "Remove its webhook", (*mover).isUnhooked, (*mover).unhook, (*mover).manualUnhook},
	{7, "Uninstall the rest, and keep the definitions", (*mover).isGone, (*mover).uninstall, (*mover).manualUninstall},
}

// Run takes the steps that have not been taken, or one of them if only is not 0. It asks before
// each one, and stops at the first surprise. The state is in the cluster, so that an interrupted
// move goes on where it was.
func Run(ctx context.Context, cfg Config, only int) error {
	m, err := cfg.connect()
	if err != nil {
		return err
	}
	if only < 0 || only > len(steps) {
		return fmt.Errorf("--step is %d: want 1 to %d", only, len(steps))
	}
	s, err := m.begin(ctx)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if only != 0 && step.number > only {
			break
		}
		done, err := step.done(m, ctx, s)
		switch {
		case err != nil:
			return fmt.Errorf("finding out about step %d: %w", step.number, err)
		case done:
			m.say("Step %d is done: %s", step.number, step.title)
			continue
		case only != 0 && step.number < only:
			return fmt.Errorf("step %d has not been taken: %s", step.number, step.title)
		}
		yes, err := m.Ask(fmt.Sprintf("Step %d: %s. Go on?", step.number, step.title))
		if err != nil || !yes {
			m.say("Stopped before step %d. Nothing else has changed.", step.number)
			return err
		}
		if err := step.do(m, ctx, s); err != nil {
			return exit.WithNext(fmt.Errorf("step %d: %w", step.number, err), "Repeat the command to go on, or take all steps back: "+m.Line("adopt", m.name, "--back"))
		}
		m.say("Step %d: done", step.number)
	}
	return nil
}

// Sleep waits.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (m *mover) say(format string, args ...any) { fmt.Fprintf(m.Out, format+"\n", args...) }

// begin returns the state of a move that has begun, or plans one.
func (m *mover) begin(ctx context.Context) (*state, error) {
	s, err := m.load(ctx)
	if err != nil || s != nil {
		return s, err
	}
	p, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	m.say("%s", p.Text())
	if covered, known := p.Covered(); !covered || !known {
		if m.Careless {
			return nil, errors.New("something is not covered, and --yes cannot answer for it: run without --yes, or change what failed")
		}
		if yes, err := m.Ask("Something is not covered, or unknown: see above. Go on nevertheless?"); err != nil || !yes {
			return nil, cmpErr(err, errors.New("nothing has changed"))
		}
	}
	return m.stateOf(ctx, p)
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// until polls a condition. It gives up after patience.
func (m *mover) until(ctx context.Context, what string, met func() (bool, error)) error {
	var last error
	for waited := time.Duration(0); waited <= patience; waited += pollEvery {
		is, err := met()
		if err == nil && is {
			return nil
		}
		last = err
		if err := m.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
	if last != nil {
		return fmt.Errorf("waiting until %s: %w", what, last)
	}
	return fmt.Errorf("waited %s in vain until %s", patience, what)
}

// settle returns an error if objects that were taken away come back.
func (m *mover) settle(ctx context.Context, s *state, gone func(*mover, context.Context, *state) (bool, error)) error {
	for waited := time.Duration(0); waited < settling; waited += pollEvery {
		if is, err := gone(m, ctx, s); err != nil {
			return err
		} else if !is {
			return fmt.Errorf("another program has put back what this step takes away%s: suspend it, and repeat the step", s.keeper())
		}
		if err := m.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
	return nil
}

// ofDefinitions returns the definitions among the objects, in the newer of both versions.
func (m *mover) ofDefinitions(ctx context.Context, s *state) (newer []*unstructured.Unstructured, err error) {
	all, err := m.objects(s.Configuration)
	for _, o := range all {
		if o.GetKind() != definitionKind.Kind {
			continue
		}
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(o.GroupVersionKind())
		if _, err := m.exists(ctx, "", o.GetName(), stored); err != nil {
			return nil, err
		}
		const label = "app.kubernetes.io/version"
		if theirs := stored.GetLabels()[label]; older(strings.TrimPrefix(o.GetLabels()[label], "v"), strings.TrimPrefix(theirs, "v")) {
			continue
		}
		newer = append(newer, o)
	}
	return newer, err
}

func (m *mover) areDefined(ctx context.Context, s *state) (bool, error) {
	all, err := m.ofDefinitions(ctx, s)
	if err != nil {
		return false, err
	}
	return m.areApplied(ctx, all)
}

func (m *mover) define(ctx context.Context, s *state) error {
	all, err := m.ofDefinitions(ctx, s)
	if err != nil {
		return err
	}
	if err := m.apply(ctx, all); err != nil {
		return err
	}
	return m.until(ctx, "the definitions are established", func() (bool, error) {
		for _, o := range all {
			stored := o.DeepCopy()
			if _, err := m.exists(ctx, "", o.GetName(), stored); err != nil {
				return false, err
			}
			if !hasCondition(stored, "Established") {
				return false, nil
			}
		}
		return true, nil
	})
}

func hasCondition(o *unstructured.Unstructured, name string) bool {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(all, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == name && condition["status"] == "True"
	})
}

// rest returns the objects of the installation that are not definitions.
func (m *mover) rest(s *state) ([]*unstructured.Unstructured, error) {
	all, err := m.objects(s.Configuration)
	all = slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == definitionKind.Kind })
	return append(all, s.Bindings...), err
}

func (m *mover) isInstalled(ctx context.Context, s *state) (bool, error) {
	if !s.saved {
		return false, nil
	}
	all, err := m.rest(s)
	if err != nil {
		return false, err
	}
	return m.areApplied(ctx, all)
}

func (m *mover) install(ctx context.Context, s *state) error {
	all, err := m.rest(s)
	if err != nil {
		return err
	}
	isNamespace := func(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" }
	if at := slices.IndexFunc(all, isNamespace); at >= 0 {
		if err := m.apply(ctx, all[at:at+1]); err != nil {
			return err
		}
	}
	if err := m.save(ctx, s); err != nil { // before anything that a way back must know of
		return err
	}
	if err := m.apply(ctx, all); err != nil {
		return err
	}
	return m.until(ctx, "the pods of certplane are ready, and both webhooks answer", func() (bool, error) {
		d := &appsv1.Deployment{}
		if err := m.api.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: controllersName}, d); err != nil {
			return false, err
		}
		if d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas < ptr.Deref(d.Spec.Replicas, 1) || d.Status.UpdatedReplicas < ptr.Deref(d.Spec.Replicas, 1) {
			return false, nil
		}
		return m.webhooksAnswer(ctx)
	})
}

// webhooksAnswer sends a valid and an invalid object through all webhooks, without storing them.
func (m *mover) webhooksAnswer(ctx context.Context) (bool, error) {
	probe := func(text string) error {
		o, err := object(text)
		if err != nil {
			return err
		}
		if !m.webhookFirst { // Bundles have no namespace
			o.SetNamespace(m.namespace)
		}
		return m.api.Create(ctx, o, client.DryRunAll)
	}
	if err := probe(m.valid); err != nil {
		return false, fmt.Errorf("creating a valid object without storing it: %w", err)
	}
	switch err := probe(m.invalid); {
	case err == nil:
		return false, errors.New("an invalid object is not refused")
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		return true, nil
	default:
		return false, fmt.Errorf("creating an invalid object without storing it: %w", err)
	}
}

func (m *mover) isCompared(_ context.Context, s *state) (bool, error) { return s.Compared, nil }

// compare plans again, and checks that other programs answer the accounts of certplane.
func (m *mover) compare(ctx context.Context, s *state) error {
	m.now = m.Now()
	p, err := m.read(ctx)
	if err != nil {
		return err
	}
	for _, c := range p.Checks {
		if c.Result == check.Failed && !slices.Contains(s.Accepted, c.Text) {
			return fmt.Errorf("%s: %s", c.Topic, c.Text)
		}
	}
	for _, t := range p.Trusted {
		for _, rule := range t.rules {
			for _, need := range needs {
				if !need.matches(rule) || !slices.Contains(t.Accounts, need.account) {
					continue
				}
				resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
				access := authorizationv1.ResourceAttributes{Namespace: t.Namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource}
				if len(rule.ResourceNames) > 0 {
					access.Name = rule.ResourceNames[0]
				}
				user := fmt.Sprintf("system:serviceaccount:%s:%s", m.namespace, need.account)
				if may, err := m.api.May(ctx, authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &access}); err != nil || !may {
					return cmpErr(err, fmt.Errorf("%s may not %s %s.%s, in spite of the copy of %s %s", user, access.Verb, resource, access.Group, t.Kind, t.Name))
				}
				break
			}
		}
	}
	s.Compared = true
	return m.save(ctx, s)
}

// deployment returns the Deployment of a part; nil if it does not exist any more.
func (m *mover) deployment(ctx context.Context, part Part) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	if found, err := m.exists(ctx, part.Namespace, part.Deployment, d); err != nil || !found {
		return nil, err
	}
	return d, nil
}

// isStopped reports whether the controllers of the program do not run, and certplane leads.
func (m *mover) isStopped(ctx context.Context, s *state) (bool, error) {
	if down, err := m.isScaledDown(ctx, s); err != nil || !down {
		return false, err
	}
	return m.lead(ctx, s, true)
}

func (m *mover) isScaledDown(ctx context.Context, s *state) (bool, error) {
	for _, part := range s.Parts {
		d, err := m.deployment(ctx, part)
		if err != nil {
			return false, err
		}
		if part.Lease != "" && d != nil && (ptr.Deref(d.Spec.Replicas, 1) > 0 || d.Status.Replicas > 0) {
			return false, nil
		}
	}
	return true, nil
}

// lead reports whether certplane holds all leases of the program; or, if ours is false, whether
// another program holds them.
func (m *mover) lead(ctx context.Context, s *state, ours bool) (bool, error) {
	own, _, _ := unstructured.NestedString(s.Configuration, "leaderElection", "resourceName")
	if own == "" {
		own = controllersName
	}
	for _, part := range s.Parts {
		namespace, name, ok := strings.Cut(part.Lease, "/")
		if !ok {
			continue
		}
		lease := &coordinationv1.Lease{}
		if found, err := m.exists(ctx, namespace, name, lease); err != nil || !found {
			return false, err
		}
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		if holder == "" || strings.Contains(holder, "/"+own+"_") != ours {
			return false, nil
		}
	}
	return true, nil
}

// stop stops the controllers of the program. Where they also serve its webhook, its configuration
// goes first: certplane's webhook has checked the objects since step 2.
func (m *mover) stop(ctx context.Context, s *state) error {
	if m.webhookFirst {
		if err := m.deleteWebhooks(ctx, s); err != nil {
			return err
		}
	}
	for _, part := range s.Parts {
		if part.Lease == "" {
			continue
		}
		if err := m.scale(ctx, part, 0); err != nil {
			return err
		}
	}
	if err := m.until(ctx, "certplane holds the leases", func() (bool, error) { return m.isStopped(ctx, s) }); err != nil {
		return err
	}
	return m.settle(ctx, s, (*mover).isScaledDown)
}

func (m *mover) scale(ctx context.Context, part Part, replicas int32) error {
	d, err := m.deployment(ctx, part)
	if err != nil || d == nil {
		return err
	}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := m.api.Patch(ctx, d, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("scaling the Deployment %s/%s: %w", part.Namespace, part.Deployment, err)
	}
	return nil
}

func (m *mover) isVerified(_ context.Context, s *state) (bool, error) {
	return s.Verified, nil
}

func (m *mover) watch(ctx context.Context, s *state) error {
	for waited := time.Duration(0); waited < watching; waited += settling {
		if err := m.verified(ctx, s); err != nil {
			return err
		}
		if err := m.Sleep(ctx, settling); err != nil {
			return err
		}
	}
	if err := m.verified(ctx, s); err != nil {
		return err
	}
	s.Verified = true
	return m.save(ctx, s)
}

func (m *mover) verified(ctx context.Context, s *state) error {
	m.now = m.Now()
	if leads, err := m.lead(ctx, s, true); err != nil || !leads {
		return cmpErr(err, errors.New("certplane does not hold the leases any more"))
	}
	report, err := m.verify(ctx, s.Before)
	if err != nil {
		return err
	}
	for _, c := range report.Checks {
		if c.Result == check.Failed {
			return errors.New(c.Text)
		}
	}
	return nil
}

var webhookKinds = []schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
}

// webhooks returns the webhook configurations of the program: those with a webhook of its name
// that calls another namespace than certplane's.
func (m *mover) webhooks(ctx context.Context) (found []*unstructured.Unstructured, err error) {
	for _, kind := range webhookKinds {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(kind)
		if err := m.api.List(ctx, all); err != nil {
			return nil, fmt.Errorf("listing webhook configurations: %w", err)
		}
		for i := range all.Items {
			o := &all.Items[i]
			hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
			if o.GetLabels()["app.kubernetes.io/name"] != "certplane" && slices.ContainsFunc(hooks, func(h any) bool {
				hook, _ := h.(map[string]any)
				return hook["name"] == m.webhook
			}) {
				found = append(found, o)
			}
		}
	}
	return found, nil
}

// deleteWebhooks deletes the webhook configurations of the program, and keeps them in the state.
func (m *mover) deleteWebhooks(ctx context.Context, s *state) error {
	found, err := m.webhooks(ctx)
	if err != nil || len(found) == 0 {
		return err
	}
	for _, o := range found {
		if !slices.ContainsFunc(s.Webhooks, func(saved *unstructured.Unstructured) bool { return saved.GetUID() == o.GetUID() }) {
			s.Webhooks = append(s.Webhooks, o)
		}
	}
	if err := m.save(ctx, s); err != nil {
		return err
	}
	return m.remove(ctx, found)
}

// isUnhooked reports whether the webhook of the program is gone.
func (m *mover) isUnhooked(ctx context.Context, s *state) (bool, error) {
	if found, err := m.webhooks(ctx); err != nil || len(found) > 0 {
		return false, err
	}
	for _, part := range s.Parts {
		if part.Lease != "" {
			continue
		}
		if d, err := m.deployment(ctx, part); err != nil || d != nil {
			return false, err
		}
	}
	return true, nil
}

// unhook deletes the webhook configurations, and then what serves them.
func (m *mover) unhook(ctx context.Context, s *state) error {
	if ok, err := m.webhooksAnswer(ctx); !ok {
		return err
	}
	if err := m.deleteWebhooks(ctx, s); err != nil {
		return err
	}
	for _, part := range s.Parts {
		if part.Lease != "" {
			continue
		}
		for _, kind := range []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("Deployment"), corev1.SchemeGroupVersion.WithKind("Service")} {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(kind)
			o.SetNamespace(part.Namespace)
			o.SetName(part.Deployment)
			if err := m.remove(ctx, []*unstructured.Unstructured{o}); err != nil {
				return err
			}
		}
	}
	if err := m.settle(ctx, s, (*mover).isUnhooked); err != nil {
		return err
	}
	if ok, err := m.webhooksAnswer(ctx); !ok {
		return err
	}
	return nil
}

func (m *mover) isGone(ctx context.Context, s *state) (bool, error) {
	left, err := m.leftovers(ctx, s)
	return len(left) == 0, err
}

// uninstall deletes what the program has installed, except for the definitions.
func (m *mover) uninstall(ctx context.Context, s *state) error {
	if s.Release != "" {
		switch r, err := m.release(ctx, s.Parts[0].Namespace, s.Release); {
		case err != nil:
			return err
		case r != nil && len(r.deletes(m.groups)) > 0:
			return exit.WithNext(fmt.Errorf("the release %s of Helm does not keep the definitions %s: whoever uninstalls it later deletes all their objects", s.Release, some(r.deletes(m.groups))),
				"Upgrade the release to a chart with crds.keep: true, or annotate the definitions in it with helm.sh/resource-policy: keep, and repeat the step.")
		}
	}
	left, err := m.leftovers(ctx, s)
	if err != nil {
		return err
	}
	names := make([]string, len(left))
	for i, o := range left {
		names[i] = o.GetKind() + " " + nameOf(o)
	}
	if yes, err := m.Ask("This deletes " + strings.Join(names, ", ") + ". Go on?"); err != nil || !yes {
		return cmpErr(err, errors.New("nothing was deleted"))
	}
	if err := m.remove(ctx, left); err != nil {
		return err
	}
	if err := m.settle(ctx, s, (*mover).isGone); err != nil {
		return err
	}
	return m.verified(ctx, s)
}
