// Command client asks a host with the client that is generated from its description.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := ask(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(ctx context.Context, host string) error {
	c, err := NewClientWithResponses(host)
	if err != nil {
		return err
	}
	id, wait := "generated-go", "60s"
	made, err := c.CreateSessionWithResponse(ctx, nil, SessionSpec{Agent: "echo", Id: &id})
	if err != nil || made.JSON201 == nil || made.JSON201.Id != id {
		return fmt.Errorf("session: %v %s", err, made.Body)
	}
	run, err := c.SubmitWithResponse(ctx, id, &SubmitParams{Wait: &wait}, Message{Input: "hello"})
	if err != nil || run.JSON200 == nil || run.JSON200.Text == nil || *run.JSON200.Text != "[user: hello]" || run.JSON200.Usage.Output != 7 {
		return fmt.Errorf("run: %v %s", err, run.Body)
	}
	missing, err := c.GetSessionWithResponse(ctx, "none", nil)
	if err != nil || missing.ApplicationproblemJSON404 == nil || missing.ApplicationproblemJSON404.Code != "ERR_NOT_FOUND" {
		return fmt.Errorf("missing: %v %s", err, missing.Body)
	}
	keys, err := c.GetKeysWithResponse(ctx)
	if err != nil || keys.ApplicationjwkSetJSON200 == nil || len(keys.ApplicationjwkSetJSON200.Keys) == 0 {
		return fmt.Errorf("keys: %v %s", err, keys.Body)
	}
	var said ChatRequest_Messages_Content
	if err := said.FromChatRequestMessagesContent0("hi"); err != nil {
		return err
	}
	chat, err := c.ChatCompletionWithResponse(ctx, nil, ChatRequest{Model: "echo"})
	if err != nil || chat.JSON400 == nil || *chat.JSON400.Error.Param != "messages" {
		return fmt.Errorf("chat: %v %s", err, chat.Body)
	}
	return nil
}
