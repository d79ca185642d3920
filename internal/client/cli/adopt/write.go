package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Write writes the files of a move to a folder, which must be empty or missing: the configuration,
// the manifests, the copied bindings, values for the program's chart, the steps as commands, and
// before.json. None of them contains a secret.
func Write(cfg Config, p *Plan, dir string) error {
	m, err := cfg.connect()
	if err != nil {
		return err
	}
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		return fmt.Errorf("--write: the folder %s is not empty: name another", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of the move: %w", err)
	}
	s, err := m.stateOf(context.Background(), p)
	if err != nil {
		return err
	}
	install, err := m.objects(p.Configuration)
	if err != nil {
		return err
	}
	config, errConfig := yaml.Marshal(p.Configuration)
	before, errBefore := json.MarshalIndent(p.before, "", "  ")
	if err := errors.Join(errConfig, errBefore); err != nil {
		return fmt.Errorf("encoding the files of the move: %w", err)
	}
	files := map[string]string{"config.yaml": string(config), "before.json": string(before) + "\n", "steps.md": m.steps(s)}
	var definitions, rest strings.Builder
	for _, o := range append(install, s.Bindings...) {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("encoding the manifests: %w", err)
		}
		to := &rest
		if o.GetKind() == definitionKind.Kind {
			to = &definitions
		}
		fmt.Fprintf(to, "---\n%s", text)
	}
	files["1-definitions.yaml"], files["2-certplane.yaml"] = definitions.String(), rest.String()
	for name, values := range m.values {
		files[name] = values
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the files of the move: %w", err)
		}
	}
	return nil
}

// steps returns the steps as commands.
func (m *mover) steps(s *state) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# From %s to certplane\n\n`%s` takes these steps, and checks each one.\nRun the commands in this folder. First save the Secrets of CAs and all objects, outside of the cluster.\n", m.name, m.Line("adopt", m.name, "--run"))
	if s.Tool != "" {
		fmt.Fprintf(&text, "\n%s keeps the objects of %s and would put them back: suspend it before step 4.\n", s.Tool, m.name)
	}
	if s.Release != "" {
		fmt.Fprintf(&text, "\nThe files `values-*.yaml` are for the chart of %s, if you change its release `%s` instead of its objects.\n", m.name, s.Release)
	}
	for _, step := range steps {
		if commands := step.manual(m, s); len(commands) > 0 {
			fmt.Fprintf(&text, "\n## %d. %s\n\n```console\n$ %s\n```\n", step.number, step.title, strings.Join(commands, "\n$ "))
		}
	}
	fmt.Fprintf(&text, "\n## Back\n\n```console\n$ %s\n```\n", m.Line("adopt", m.name, "--back"))
	return text.String()
}

func (m *mover) manualDefine(*state) []string {
	return []string{m.Line("kubectl", "apply", "--server-side", "--force-conflicts", "-f", "1-definitions.yaml")}
}

func (m *mover) manualInstall(*state) []string {
	return []string{
		m.Line("kubectl", "apply", "--server-side", "--force-conflicts", "-f", "2-certplane.yaml"),
		m.Line("kubectl", "--namespace", m.namespace, "rollout", "status", "deployment/"+controllersName),
	}
}

func (m *mover) manualCompare(*state) []string {
	return []string{m.Line("adopt", m.name), m.Line("adopt", m.name, "--verify", "before.json")}
}

func (m *mover) manualStop(s *state) (lines []string) {
	if m.webhookFirst {
		lines = m.manualWebhooks()
	}
	for _, part := range s.Parts {
		if part.Lease != "" {
			lines = append(lines, m.Line("kubectl", "--namespace", part.Namespace, "scale", "deployment", part.Deployment, "--replicas=0"))
		}
	}
	return append(lines, m.Line("check"))
}

func (m *mover) manualWebhooks() (lines []string) {
	found, err := m.webhooks(context.Background())
	if err != nil {
		return []string{"# The webhook configurations could not be read: delete those with a webhook " + m.webhook + " that are not of certplane."}
	}
	for _, o := range found {
		lines = append(lines, m.Line("kubectl", "delete", strings.ToLower(o.GetKind()), o.GetName()))
	}
	return lines
}

func (m *mover) manualUnhook(s *state) []string {
	if m.webhookFirst {
		return nil
	}
	lines := m.manualWebhooks()
	for _, part := range s.Parts {
		if part.Lease == "" {
			lines = append(lines, m.Line("kubectl", "--namespace", part.Namespace, "delete", "deployment,service", part.Deployment))
		}
	}
	return lines
}

func (m *mover) manualUninstall(s *state) []string {
	if s.Release != "" {
		return []string{fmt.Sprintf("helm uninstall --namespace %s %s # only if the release keeps the definitions (crds.keep)", s.Parts[0].Namespace, s.Release)}
	}
	return []string{m.Line("kubectl", "delete", "deployment,service,serviceaccount,configmap,role,rolebinding,clusterrole,clusterrolebinding", "--all-namespaces", "--selector", "app.kubernetes.io/instance="+s.Instance)}
}
