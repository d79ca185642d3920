package adopt

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/template"

	"sigs.k8s.io/yaml"
)

//go:embed steps.md.tmpl
var stepsFile string

// Write writes the files of a move to a folder, which must be empty or missing: the configuration,
// the manifests with the copied bindings, values for the program's chart, the steps as commands,
// and before.json. None of them contains a secret.
func (p *Plan) Write(ctx context.Context, dir string) error {
	m := &mover{p.by}
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		return fmt.Errorf("--write: the folder %s is not empty: name another", dir)
	}
	s, err := m.stateOf(ctx, p)
	if err != nil {
		return err
	}
	definitions, others, err := m.objects(p.Configuration)
	if err != nil {
		return err
	}
	steps, err := m.steps(ctx, s)
	if err != nil {
		return err
	}
	files := map[string][]byte{"steps.md": steps}
	for _, o := range slices.Concat(definitions, others, s.Bindings) {
		name := "certplane.yaml"
		if o.GetKind() == definitionKind.Kind {
			name = "definitions.yaml"
		}
		text, errYAML := yaml.Marshal(o.Object)
		err = errors.Join(err, errYAML)
		files[name] = append(append(files[name], "---\n"...), text...)
	}
	for name, content := range map[string]any{"config.yaml": p.Configuration, "values-stop.yaml": m.Values["stop"], "values-keep.yaml": m.Values["keep"]} {
		text, errYAML := yaml.Marshal(content)
		files[name], err = text, errors.Join(err, errYAML)
	}
	before, errJSON := json.MarshalIndent(p.before, "", "  ")
	files["before.json"] = before
	if err := errors.Join(err, errJSON, os.MkdirAll(dir, 0o755)); err != nil {
		return fmt.Errorf("making the files of the move: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("writing the files of the move: %w", err)
		}
	}
	return nil
}

// steps returns the steps as commands.
func (m *mover) steps(ctx context.Context, s *state) ([]byte, error) {
	hooks, err := m.webhooks(ctx)
	if err != nil {
		return nil, err
	}
	about := map[string]any{
		"Program": m.Name, "Keeper": s.Keeper, "Release": s.Release, "Uninstall": m.uninstallLine(s), "WebhookFirst": m.WebhookFirst,
		"Parts": s.Parts, "Webhooks": hooks, "Kubectl": m.Line("kubectl"), "Adopt": m.Line("adopt", m.Name),
	}
	page, err := template.New("steps").Parse(stepsFile)
	if err != nil {
		return nil, fmt.Errorf("reading steps.md.tmpl: %w", err) // a bug of ours
	}
	var text bytes.Buffer
	if err := page.Execute(&text, about); err != nil {
		return nil, fmt.Errorf("writing steps.md: %w", err)
	}
	return text.Bytes(), nil
}
