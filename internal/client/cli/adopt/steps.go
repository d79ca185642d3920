package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/check"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// controllersName is the name of certplane's Deployment, its account and its ConfigMap.
const controllersName = "certplane-controllers"

// Times of a move.
const (
	pollEvery = 2 * time.Second
	patience  = 5 * time.Minute  // for pods that start, and for the lease of a leader that was killed
	settling  = time.Minute      // programs that keep objects put them back sooner
	noticing  = 10 * time.Second // each API server learns that a webhook configuration is deleted
)

// Watching is the default of Config.Watch.
const Watching = 10 * time.Minute

// mover takes the steps of a move.
type mover struct{ *reader }

// step is a step of the move. At every moment, each webhook configuration with the policy Fail has
// a ready pod behind it, and one for the program's objects is installed.
type step struct {
	title string
	// done reports whether the cluster shows that the step was taken. Without it, the state does.
	done func(*mover, context.Context, *state) (bool, error)
	// do returns when the cluster shows the effect. It can be repeated.
	do func(*mover, context.Context, *state) error
}

var steps = []step{
	{"update the definitions of its kinds", nil, (*mover).define},
	{"install certplane, which waits for the leases", nil, (*mover).install},
	{"compare again, with certplane installed", nil, (*mover).compare},
	{"stop its controllers: certplane takes the leases", (*mover).isStopped, (*mover).stop},
	{"watch certplane, and verify", nil, (*mover).watch},
	{"remove its webhook", (*mover).isUnhooked, (*mover).unhook},
	{"uninstall the rest, and keep the definitions", (*mover).isGone, (*mover).uninstall},
}

// Run takes the steps that have not been taken, or one of them if only is not 0. It asks before
// each one, and stops at the first surprise. The state is in the cluster, so that an interrupted
// move goes on where it was.
func Run(ctx context.Context, cfg Config, only int) error {
	r, err := cfg.connect()
	if err != nil {
		return err
	}
	m := &mover{r}
	if only < 0 || only > len(steps) {
		return fmt.Errorf("--step is %d: want 1 to %d", only, len(steps))
	}
	s, err := m.begin(ctx)
	if err != nil {
		return err
	}
	for i, step := range steps {
		number := i + 1
		if only != 0 && number > only {
			break
		}
		done := s.Taken >= number
		if step.done != nil {
			if done, err = step.done(m, ctx, s); err != nil {
				return fmt.Errorf("finding out about step %d: %w", number, err)
			}
		}
		switch {
		case done:
			fmt.Fprintf(m.Out, "Step %d is done: %s\n", number, step.title)
			continue
		case only != 0 && number < only:
			return fmt.Errorf("step %d has not been taken: %s", number, step.title)
		}
		if err := m.ask("Step %d: %s. Go on?", number, step.title); err != nil {
			return err
		}
		err := step.do(m, ctx, s)
		if err == nil {
			s.Taken = number
			err = m.save(ctx, s)
		}
		if err != nil {
			return exit.WithNext(fmt.Errorf("step %d: %w", number, err), "Repeat the command to go on, or take all steps back: "+m.Line("adopt", m.Name, "--back"))
		}
		fmt.Fprintf(m.Out, "Step %d: done\n", number)
	}
	return nil
}

// ask returns an error unless the user wants to go on.
func (m *mover) ask(format string, args ...any) error {
	yes, err := m.Ask(fmt.Sprintf(format, args...))
	if err == nil && !yes {
		err = errors.New("stopped by you: nothing else has changed")
	}
	return err
}

// begin returns the state of a move that has begun, or plans one.
func (m *mover) begin(ctx context.Context) (*state, error) {
	if s, err := m.load(ctx); err != nil || s != nil {
		return s, err
	}
	p, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(m.Out, p.Text())
	if p.Count[check.Failed]+p.Count[check.NotChecked] > 0 {
		if m.Careless {
			return nil, errors.New("something is not covered or unknown, and --yes cannot answer for it: run without --yes, or change what failed")
		}
		if err := m.ask("Something is not covered or unknown: see above. Go on nevertheless?"); err != nil {
			return nil, err
		}
	}
	return m.stateOf(ctx, p)
}

// until polls a condition. It gives up after patience.
func (m *mover) until(ctx context.Context, what string, met func() (bool, error)) error {
	for waited := time.Duration(0); ; waited += pollEvery {
		is, err := met()
		if err == nil && is {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it took longer than %s", patience)
		}
		if waited > patience {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		if err := m.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// settle returns an error if what was taken away comes back.
func (m *mover) settle(ctx context.Context, s *state, gone func(*mover, context.Context, *state) (bool, error)) error {
	for waited := time.Duration(0); waited < settling; waited += pollEvery {
		is, err := gone(m, ctx, s)
		if err == nil && !is {
			err = fmt.Errorf("%s has put back what this step takes away: suspend it, and repeat the step", cmp.Or(s.Keeper, "another program"))
		}
		if err == nil {
			err = m.Sleep(ctx, pollEvery)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// define applies the definitions, unless the stored ones are newer. The state gets its namespace.
func (m *mover) define(ctx context.Context, s *state) error {
	definitions, others, err := m.objects(s.Configuration)
	if err != nil {
		return err
	}
	if err := m.apply(ctx, others[0]); err != nil {
		return err
	}
	version := func(o *unstructured.Unstructured) string {
		return strings.TrimPrefix(o.GetLabels()["app.kubernetes.io/version"], "v")
	}
	for _, o := range definitions {
		stored := o.DeepCopy()
		if _, err := m.exists(ctx, "", o.GetName(), stored); err != nil {
			return fmt.Errorf("reading the definition %s: %w", o.GetName(), err)
		}
		if older(version(o), version(stored)) {
			continue
		}
		if err := m.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// install installs certplane. Its webhook is called from the moment that it answers.
func (m *mover) install(ctx context.Context, s *state) error {
	_, all, err := m.objects(s.Configuration)
	if err != nil {
		return err
	}
	hooks, others := split(all)
	if err := m.apply(ctx, append(others, s.Bindings...)...); err != nil {
		return err
	}
	err = m.until(ctx, "the pods of certplane are ready", func() (bool, error) {
		d := &appsv1.Deployment{}
		_, err := m.exists(ctx, m.namespace, controllersName, d)
		wanted := ptr.Deref(d.Spec.Replicas, 1)
		return d.Status.ObservedGeneration >= d.Generation && d.Status.AvailableReplicas >= wanted && d.Status.UpdatedReplicas >= wanted, err
	})
	if err != nil {
		return err
	}
	for _, hook := range hooks { // its CA is written after it was created
		lenient := hook.DeepCopy()
		each, _, _ := unstructured.NestedSlice(lenient.Object, "webhooks")
		for _, webhook := range each {
			webhook.(map[string]any)["failurePolicy"] = "Ignore"
		}
		lenient.Object["webhooks"] = each
		if err := m.apply(ctx, lenient); err != nil {
			return err
		}
		err := m.until(ctx, "certplane has written the CA of its webhook", func() (bool, error) {
			_, err := m.exists(ctx, "", lenient.GetName(), lenient)
			each, _, _ := unstructured.NestedSlice(lenient.Object, "webhooks")
			return !slices.ContainsFunc(each, func(webhook any) bool {
				ca, _, _ := unstructured.NestedString(webhook.(map[string]any), "clientConfig", "caBundle")
				return ca == ""
			}), err
		})
		if err != nil {
			return err
		}
	}
	if err := m.apply(ctx, hooks...); err != nil {
		return err
	}
	return m.until(ctx, "both webhooks answer", func() (bool, error) { return true, m.webhooksAnswer(ctx) })
}

// split separates webhook configurations from other objects.
func split(all []*unstructured.Unstructured) (hooks, others []*unstructured.Unstructured) {
	for _, o := range all {
		if strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
			hooks = append(hooks, o)
		} else {
			others = append(others, o)
		}
	}
	return hooks, others
}

// webhooksAnswer sends a valid and an invalid object through all webhooks, without storing them.
func (m *mover) webhooksAnswer(ctx context.Context) error {
	for content, refused := range map[*map[string]any]bool{&m.Valid: false, &m.Invalid: true} {
		o := (&unstructured.Unstructured{Object: *content}).DeepCopy()
		if o.GetNamespace() != "" {
			o.SetNamespace(m.namespace)
		}
		err := m.api.Create(ctx, o, client.DryRunAll)
		isRefusal := apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
		switch {
		case refused && err == nil:
			return errors.New("the webhooks do not refuse an invalid object")
		case err != nil && (!refused || !isRefusal):
			return fmt.Errorf("trying the webhooks: %w", err)
		}
	}
	return nil
}

// compare plans again: nothing new may be issued or written.
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
	return nil
}

// isStopped reports whether the controllers of the program do not run, and certplane leads.
func (m *mover) isStopped(ctx context.Context, s *state) (bool, error) {
	if down, err := m.areDown(ctx, s); err != nil || !down {
		return false, err
	}
	return m.lead(ctx, s, true)
}

func (m *mover) areDown(ctx context.Context, s *state) (bool, error) {
	for _, part := range s.Parts {
		d := &appsv1.Deployment{}
		found, err := m.exists(ctx, part.Namespace, part.Deployment, d)
		if err != nil || found && part.Lease != "" && (ptr.Deref(d.Spec.Replicas, 1) > 0 || d.Status.Replicas > 0) {
			return false, err
		}
	}
	return true, nil
}

// lead reports whether certplane, or if ours is false another program, holds all the leases.
func (m *mover) lead(ctx context.Context, s *state, ours bool) (bool, error) {
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
		if holder == "" || strings.HasPrefix(holder, m.namespace+"/") != ours {
			return false, nil
		}
	}
	return true, nil
}

// stop stops the controllers of the program. Where they also serve its webhook, its configuration
// goes first: certplane's webhook has checked the objects since step 2.
func (m *mover) stop(ctx context.Context, s *state) error {
	if m.WebhookFirst {
		if err := m.deleteWebhooks(ctx, s); err != nil {
			return err
		}
	}
	for _, part := range s.Parts {
		if part.Lease != "" {
			if err := m.scale(ctx, part, 0); err != nil {
				return err
			}
		}
	}
	if err := m.until(ctx, "certplane holds the leases", func() (bool, error) { return m.isStopped(ctx, s) }); err != nil {
		return err
	}
	return m.settle(ctx, s, (*mover).areDown)
}

func (m *mover) scale(ctx context.Context, part Part, replicas int32) error {
	d := &appsv1.Deployment{}
	if found, err := m.exists(ctx, part.Namespace, part.Deployment, d); err != nil || !found {
		return err
	}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := m.api.Patch(ctx, d, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("scaling the Deployment %s: %w", nameOf(d), err)
	}
	return nil
}

func (m *mover) watch(ctx context.Context, s *state) error {
	for waited := time.Duration(0); ; waited += settling {
		m.now = m.Now()
		if leads, err := m.lead(ctx, s, true); err != nil {
			return err
		} else if !leads {
			return errors.New("certplane does not hold the leases any more")
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
		if waited >= m.Watch {
			return nil
		}
		if err := m.Sleep(ctx, settling); err != nil {
			return err
		}
	}
}

// webhooks returns the webhook configurations of the program.
func (m *mover) webhooks(ctx context.Context) (found []*unstructured.Unstructured, err error) {
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind})
		if err := m.api.List(ctx, all); err != nil {
			return nil, fmt.Errorf("listing webhook configurations: %w", err)
		}
		for i := range all.Items {
			hooks, _, _ := unstructured.NestedSlice(all.Items[i].Object, "webhooks")
			isTheirs := func(hook any) bool { return hook.(map[string]any)["name"] == m.Webhook }
			if all.Items[i].GetLabels()[nameLabel] != "certplane" && slices.ContainsFunc(hooks, isTheirs) {
				found = append(found, &all.Items[i])
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
	s.Webhooks = append(s.Webhooks, found...)
	if err := m.save(ctx, s); err != nil {
		return err
	}
	return m.unplug(ctx, found...)
}

// unplug deletes webhook configurations, and returns when no API server calls them any more.
func (m *mover) unplug(ctx context.Context, hooks ...*unstructured.Unstructured) error {
	if err := m.remove(ctx, hooks...); err != nil {
		return err
	}
	return m.Sleep(ctx, noticing)
}

func (m *mover) isUnhooked(ctx context.Context, s *state) (bool, error) {
	if found, err := m.webhooks(ctx); err != nil || len(found) > 0 {
		return false, err
	}
	return m.areGone(ctx, s, func(part Part) bool { return part.Lease == "" })
}

// areGone reports whether the Deployments of some parts are gone.
func (m *mover) areGone(ctx context.Context, s *state, meant func(Part) bool) (bool, error) {
	for _, part := range s.Parts {
		if found, err := m.exists(ctx, part.Namespace, part.Deployment, &appsv1.Deployment{}); err != nil || found && meant(part) {
			return false, err
		}
	}
	return true, nil
}

// unhook deletes the webhook configurations, and only then what serves them.
func (m *mover) unhook(ctx context.Context, s *state) error {
	if err := m.webhooksAnswer(ctx); err != nil {
		return err
	}
	if err := m.deleteWebhooks(ctx, s); err != nil {
		return err
	}
	for _, part := range s.Parts {
		if part.Lease == "" {
			deployment, service := part.object(deploymentKind), part.object(corev1.SchemeGroupVersion.WithKind("Service"))
			if err := m.remove(ctx, deployment, service); err != nil {
				return err
			}
		}
	}
	if err := m.settle(ctx, s, (*mover).isUnhooked); err != nil {
		return err
	}
	return m.webhooksAnswer(ctx)
}

func (part Part) object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(part.Namespace)
	o.SetName(part.Deployment)
	return o
}

func (m *mover) isGone(ctx context.Context, s *state) (bool, error) {
	return m.areGone(ctx, s, func(Part) bool { return true })
}

// uninstall has the user uninstall the rest with the tool that has installed it. It refuses while
// that would delete the definitions, and with them all objects.
func (m *mover) uninstall(ctx context.Context, s *state) error {
	r, err := m.release(ctx, s.Parts[0].Namespace, s.Release)
	if err != nil {
		return err
	}
	if lost := r.deletes(m.Groups); len(lost) > 0 {
		return exit.WithNext(fmt.Errorf("the release %s of Helm does not keep the definitions %s: helm uninstall would delete all their objects", s.Release, some(lost)),
			"Upgrade the release to a chart with crds.keep: true, and repeat the step.")
	}
	fmt.Fprintf(m.Out, "Run in another terminal:\n  %s\n", m.uninstallLine(s))
	if err := m.until(ctx, "the Deployments of "+m.Name+" are gone", func() (bool, error) { return m.isGone(ctx, s) }); err != nil {
		return err
	}
	if err := m.settle(ctx, s, (*mover).isGone); err != nil {
		return err
	}
	return m.webhooksAnswer(ctx)
}

// uninstallLine returns the command that uninstalls the program. Another program can give its
// instance label to objects of others, too.
func (m *mover) uninstallLine(s *state) string {
	switch {
	case s.Release != "":
		return print.CommandLine("helm", "uninstall", "--namespace", s.Parts[0].Namespace, s.Release)
	case s.Instance == "" || s.Keeper != "":
		return "# uninstall it with " + cmp.Or(s.Keeper, "the tool that has installed it") + ", and keep the definitions"
	}
	selector := fmt.Sprintf("%s=%s,%s in (%s)", instanceLabel, s.Instance, nameLabel, strings.Join(m.labelNames(), ","))
	return m.Line("kubectl", "delete", "deployment,service,serviceaccount,configmap,role,rolebinding,clusterrole,clusterrolebinding", "--all-namespaces", "--selector", selector)
}
