package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/compiler/kubernetes"
)

// kubernetesInput is the Kubernetes objects of an import.
type kubernetesInput struct {
	namespace string
	strict    bool
	wider     bool // a set that may let more through than the cluster is applied
	prune     bool
	docs      []document.Document
	refused   bool
	unread    bool            // a document was no JSON or YAML, and may have been one of them
	lost      bool            // something that may make the set wider
	slugs     map[string]bool // of the policies that the objects became
}

func (k *kubernetesInput) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.namespace, "namespace", "default", "namespace of NetworkPolicies that name none")
	cmd.Flags().BoolVar(&k.strict, "strict", false, "apply nothing of Kubernetes if something of it cannot be expressed")
	cmd.Flags().BoolVar(&k.prune, "prune", false, "remove policies of earlier imports from Kubernetes that this one does not have")
	cmd.Flags().BoolVar(&k.wider, "allow-wider", false, "apply what is left, also if it may allow traffic that the cluster denies")
}

// takes keeps a document that is a Kubernetes object.
func (k *kubernetesInput) takes(doc document.Document) bool {
	if !kubernetes.Recognize(doc.JSON) {
		return false
	}
	k.docs = append(k.docs, doc)
	return true
}

// translate makes policies of the Kubernetes objects and tells what cannot be
// expressed.
func (m *importer) translate(yield func(author.Draft) bool) {
	if len(m.kube.docs) == 0 {
		return
	}
	bodies := make([][]byte, len(m.kube.docs))
	for i, doc := range m.kube.docs {
		bodies[i] = doc.JSON
	}
	res := kubernetes.Translate(bodies, kubernetes.Options{Namespace: m.kube.namespace})
	for _, item := range res.Items {
		doc := m.kube.docs[item.Document]
		line, _ := doc.At(item.Pointer)
		wider := ""
		if item.Wider {
			wider = " (wider)"
		}
		fmt.Fprintf(m.stderr, "%s: %s: %s%s\n", place(doc.File, line), item.Pointer, item.Reason, wider)
	}
	fmt.Fprintf(m.stderr, "Kubernetes: %s, %s, %s not expressed\n", cli.Counted(res.Objects, "object"), cli.Counted(len(res.Policies), "policy"), cli.Counted(len(res.Items), "thing"))
	m.kube.lost, m.kube.slugs = res.Wider() || m.kube.unread || m.unreadable, map[string]bool{}
	for _, p := range res.Policies {
		m.kube.slugs[p.Slug] = true
	}
	if m.kube.strict && len(res.Items) > 0 {
		m.kube.refused = true
		fmt.Fprintln(m.stderr, "edict: nothing of Kubernetes was applied; change what is reported above, or leave out --strict")
		return
	}
	if !m.kube.wider && m.kube.lost {
		m.kube.refused = true
		fmt.Fprintln(m.stderr, "edict: nothing of Kubernetes was applied: what is left may allow traffic that the cluster denies, because of what is marked wider above, or could not be read; change that, or give --allow-wider")
		return
	}
	for _, p := range res.Policies {
		doc := m.kube.docs[p.Document]
		d, err := author.Translated(p.Draft, doc)
		if err != nil {
			m.refuse(doc, err)
			continue
		}
		if !yield(d) {
			return
		}
	}
}

// yamlHead is how YAML begins that people write: a comment, a mark, a field or
// a list. No JSON does.
var yamlHead = regexp.MustCompile(`^(?:\s*#|\s*---|\s*[A-Za-z_]+:(?:\s|$)|\s*- )`)

// documents reads YAML whole, and anything else as it comes.
func documents(name string, r io.Reader) iter.Seq2[document.Document, *document.Fault] {
	in := bufio.NewReader(r)
	head, _ := in.Peek(512)
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	ext := filepath.Ext(name)
	if ext != ".yaml" && ext != ".yml" && !yamlHead.Match(head) {
		return document.Stream(name, in)
	}
	return func(yield func(document.Document, *document.Fault) bool) {
		text, err := document.Text(in)
		if err != nil {
			yield(document.Document{}, &document.Fault{File: name, Message: err.Error(), Unreadable: true})
			return
		}
		docs, faults := document.Parse(name, text)
		for i := range faults {
			if !yield(document.Document{}, &faults[i]) {
				return
			}
		}
		for _, d := range docs {
			if !yield(d, nil) {
				return
			}
		}
	}
}
