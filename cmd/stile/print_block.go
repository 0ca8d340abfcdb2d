package main

import (
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// block prints a record of a control block.
func (p *printer) block(body messages.Body) {
	switch b := body.(type) {
	case *messages.BlockBegin:
		p.line(cyan, "block", b.ID+" "+blockHead(b))
	case *messages.BlockDecided:
		if text := decidedText(b); text != "" {
			p.line(dim, "block", b.ID+" "+text)
		}
	case *messages.BlockEnded:
		colour := green
		if b.State != messages.ActionOK {
			colour = yellow
		}
		p.line(colour, "block", b.ID+" "+endedText(b))
	}
}

// blockHead says what a block is: its kind, and what it goes by.
func blockHead(b *messages.BlockBegin) string {
	text := b.BlockKind
	for _, part := range []string{b.Test, b.List} {
		if part != "" {
			text += " " + oneLine(part, 100)
		}
	}
	if b.Block != "" {
		text += " (in " + b.Block + ")"
	}
	return text
}

// decidedText says what a block does; "" for a group, which does all.
func decidedText(b *messages.BlockDecided) string {
	switch {
	case b.Branch != "":
		return "takes " + b.Branch
	case !b.ItemsDigest.IsZero():
		return fmt.Sprintf("has %d items", b.Count)
	}
	return ""
}

// endedText says how a block ended.
func endedText(b *messages.BlockEnded) string {
	text := string(b.State)
	if b.OK > 0 || b.Failed > 0 {
		text += fmt.Sprintf(", %d ok, %d failed", b.OK, b.Failed)
	}
	if b.Reason != "" {
		text += ": " + oneLine(b.Reason, 100)
	}
	return text
}

// blockText says which block an action stands in; "" for none.
func blockText(b *messages.ActionDeclared) string {
	switch {
	case b.Of != "":
		return " (of " + strings.TrimSpace(b.Of) + ")"
	case b.Block != "":
		return " (in " + b.Block + ")"
	}
	return ""
}
