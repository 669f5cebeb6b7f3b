"""The pieces of Jinja that a fold is made of. ``@NAMES@`` are filled in by ``fold_text``."""

#: Goes before the original's text.
BEFORE = """\
{#- @WHOLE@ of the original template follows, unchanged, as a macro. -#}
{%- macro fold_original(messages, add_generation_prompt, tools@PARAMETER@) -%}{{ '' }}"""

#: Goes after it.
AFTER = """{{ '' }}{%- endmacro -%}

{#- The original ends here. What follows renders with it, one piece at a time, so that no piece
    depends on what comes later. These marks stand for the texts of an answer meanwhile. #}
{%- set fold_prior = '@PRIOR@' %}
{%- set fold_content = '@CONTENT@' %}
{%- set fold_reasoning = '@REASONING@' %}

{#- What a rendering prints after what is known. Where the answer before it is printed in another
    way once something follows, both are taken from the mark in that answer on. #}
{%- macro fold_beyond(fold_text, fold_known) %}
    {%- if fold_text[:fold_known | length] == fold_known %}
        {{- fold_text[fold_known | length:] }}
    {%- elif fold_prior not in fold_text %}
        {#- No text of that answer is printed: what follows is behind its end. #}
        {%- set fold_end = @END@ %}
        {{- fold_text.split(fold_end, fold_known.count(fold_end))[-1]
            if fold_end and fold_end in fold_text else fold_text[fold_known | length:] }}
    {%- else %}
        {%- set fold_text = fold_text.split(fold_prior)[-1] %}
        {%- set fold_known = fold_known.split(fold_prior)[-1] %}
        {%- if fold_text[:fold_known | length] == fold_known %}
            {{- fold_text[fold_known | length:] }}
@ENDINGS@@STOPS@        {%- else %}
            {{- fold_text }}
        {%- endif %}
    {%- endif %}
{%- endmacro %}

{#- A text with a value in the place of a mark. A server's parser may have left the whitespace
    before the mark (`led`) or after it (`trailed`) in the value: then it is not printed twice. #}
{%- macro fold_filled(fold_text, fold_mark, fold_value, fold_led, fold_trailed) %}
    {%- set fold_pieces = fold_text.split(fold_mark, 1) %}
    {%- if fold_pieces | length == 1 %}
        {{- fold_text }}
    {%- else %}
        {%- set fold_before = fold_pieces[0] %}
        {%- set fold_after = fold_pieces[1] %}
        {%- if fold_led
                and fold_value[:1] in ['\\n', ' '] and fold_before[-1:] in ['\\n', ' '] %}
            {%- set fold_space = fold_before[fold_before.rstrip() | length:] %}
            {%- if fold_value[:fold_space | length] == fold_space
                    or (not fold_space.strip('\\n') and fold_value[0] == '\\n') %}
                {%- set fold_before = fold_before.rstrip() %}
            {%- endif %}
        {%- endif %}
        {%- if fold_trailed
                and fold_value[-1:] in ['\\n', ' '] and fold_after[:1] in ['\\n', ' '] %}
            {%- set fold_space = fold_after[:fold_after | length - fold_after.lstrip() | length] %}
            {%- if fold_value[-(fold_space | length):] == fold_space
                    or (not fold_space.strip('\\n') and fold_value[-1] == '\\n') %}
                {%- set fold_after = fold_after.lstrip() %}
            {%- endif %}
        {%- endif %}
        {{- fold_before + fold_value + fold_after }}
    {%- endif %}
{%- endmacro %}
"""

#: A part of an answer that is no text, looked for with a loop over content where the original has
#: one: vLLM hands parts to a template that has, outside of macros.
PARTS = """\
    {%- for fold_part in fold_message['content'] if fold_part['text'] is not defined %}
        {%- set fold_at.regular = false %}
    {%- endfor %}
"""

#: The same where it has none, and is handed texts.
NO_PARTS = """\
    {%- if fold_message['content'] | rejectattr('text', 'defined') | list %}
        {%- set fold_at.regular = false %}
    {%- endif %}
"""

#: Where the original does not print tool calls as the model writes them.
CALLS = """
{#- Tool calls as the model writes them; the original prints these in another way. #}
{%- macro fold_spelled(fold_calls, fold_middle, fold_next, fold_end) %}
    {%- for fold_call in fold_calls %}
        {%- set fold_call = fold_call.function or fold_call %}
        {%- set fold_given = fold_call.arguments or {} %}
        {{- fold_call.name ~ fold_middle }}
        {{- fold_given if fold_given is string else fold_given | tojson }}
        {{- fold_end if loop.last else fold_next }}
    {%- endfor %}
{%- endmacro %}
"""

#: Where the original raises exceptions of its own.
REFUSALS = """
    {#- What the original refuses as a whole is refused, in its own words. #}
    {%- set fold_checked = fold_original(messages, add_generation_prompt, tools@OWN@) %}
"""

#: Where a kwarg switches thinking: reasoning tells that it was on when the answer was generated.
THINKING = """\
            {%- if fold_thought and @CLOSED@ %}
                {#- An answer with reasoning was generated in a mode that thinks. #}
                {%- set fold_mode = @VALUE@ %}
                {%- set fold_printed = none %}
                {%- set fold_prompt = fold_original(fold_seen, true, fold_tools, fold_mode) %}
            {%- endif %}
"""

#: Under a policy that adds no information to history.
DROPPING = """
            {#- Reasoning stays away where the original no longer prints it. #}
            {%- if fold_thought %}
                {%- set fold_later = messages[fold_index + 1:
                    fold_roles.index('assistant', fold_index + 1)] %}
                {%- if fold_index < fold_asked
                        and not fold_later | selectattr('role', 'equalto', 'user') | list %}
                    {%- set fold_later = fold_later
                        + [{'role': 'assistant', 'content': fold_question['content']},
                           fold_question] %}
                {%- endif %}
                {%- if fold_later and fold_reasoning not in fold_original(
                        fold_seen + [fold_marked] + fold_later, false, fold_tools@MODE@) %}
                    {%- set fold_generated = false %}
                {%- endif %}
            {%- endif %}
"""

#: What that needs to know: where the last question is.
ASKED = """\
    {%- set fold_asked = messages | length - 1
        - (fold_roles[:-1] | reverse | list).index('user') %}
"""

#: Where the instructions are printed with the last question, and a last answer without them.
ALONE = """\
                    {%- set fold_seen = fold_seen
                        | rejectattr('role', 'in', ['system', 'developer']) | list %}
                    {%- set fold_prompt = fold_original(fold_seen, true, fold_tools@MODE@) %}
"""

#: Where a model writes a newline before it opens its reasoning: a parser counts it as reasoning.
EARLY = """\
                {%- if fold_said[:1] == '\\n' and fold_thought[:1] == '\\n' %}
                    {%- set fold_thought = fold_thought[1:] %}
                {%- endif %}
"""

#: Where the original prints an older message in another way once an answer follows it.
MOVING = """\
            {%- if not fold_generated %}
                {#- What the original prints in history does not go on from here: the answer is
                    printed as a last one, without a generation prompt. #}
                {%- set fold_generated = true %}
                {%- set fold_moved = true %}
                {%- set fold_prompt = fold_original(fold_seen, false, fold_tools@MODE@) %}
                {%- set fold_marked = fold_silent %}
                {%- set fold_thought = '' %}
            {%- endif %}
"""

#: What that starts from: the answer without its reasoning.
SILENTLY = """\
            {%- set fold_silent = fold_marked %}
            {%- set fold_moved = false %}
"""

#: Where reasoning that no parser split off is kept: it comes with the tags around it.
INLINED = """\
                {%- if not fold_thought and @CLOSE@ in fold_words %}
                    {#- What the model wrote is in the content, from its beginning. #}
                    {%- set fold_said = fold_content
                        + fold_said.partition(fold_content)[2] %}
                {%- endif %}
"""

#: Where whitespace after reasoning is not known to be written if nothing follows it.
TRIMMING = """\
                {%- if fold_thought and not (fold_words or fold_calls) %}
                    {%- set fold_said = fold_said.rstrip() %}
                {%- endif %}
"""

#: Where tool results are printed in another way after earlier ones.
REMEMBERING = """\
            {%- set fold_results = fold_new | selectattr('role', 'equalto', 'tool') | list %}
            {%- if fold_results and fold_opening[-1]['role'] == 'user' %}
                {#- From now on the original sees tool results after others. #}
                {%- set fold_opening = fold_opening + [fold_past] %}
                {%- for fold_result in fold_results %}
                    {%- set fold_opening = fold_opening
                        + [dict(fold_result, content=fold_result.content[:1])] %}
                {%- endfor %}
                {%- set fold_printed = none %}
                {%- set fold_kept = () %}
            {%- endif %}
"""

#: Where the content of an answer is printed behind the results of its calls, or not for good.
BEHIND = """\
            {%- if fold_calls %}
                {#- Results are looked at after an answer without content, which stays as it is. #}
                {%- set fold_given = dict(fold_bare, content=[] if fold_parts else '') %}
            {%- endif %}
"""

DRIVER = """
{#- Where the answers are, and the first question with what stands before it. Conversations in which
    an answer follows another, or nothing, are left to the original. #}
{%- set fold_roles = messages | map(attribute='role') | list + ['assistant'] %}
{%- set fold_start = fold_roles.index('assistant') %}
{%- set fold_at = namespace(regular=fold_start < messages | length
        and 'user' in fold_roles[:fold_start]
        and 'assistant assistant' not in fold_roles[:-1] | join(' ')) %}
{%- for fold_message in messages if fold_message['role'] == 'assistant'
        and fold_message['content'] is not string and fold_message['content'] %}
@UNTOLD@{%- endfor %}

{%- if not fold_at.regular %}
    {{- fold_original(messages, add_generation_prompt, tools@OWN@) }}
{%- else %}
@REFUSALS@
    {#- An answer is printed as it was generated: after what the original's generation prompt said,
        in the way in which the original prints a last answer. New messages are printed as the
        original does after [a question, the answer before them]. An answer of which it is not
        known how it was generated is kept in `told`, and printed as the original prints it in
        history. The state goes from one turn to the next in one piece: looking into a namespace
        is slow. #}
    {%- set fold_first = fold_roles.index('user') %}
    {%- set fold_in_parts = messages[fold_first]['content'] is not string %}
    {%- set fold_question = {'role': 'user', 'content':
        [{'type': 'text', 'text': 'Go on.'}] if fold_in_parts else 'Go on.'} %}
@ASKED@    {%- set fold_at.state = (0, tools, @OPENING@, none, none, [], [], (), none, ()) %}
    {%- for fold_index in range(fold_roles | length)
            if fold_roles[fold_index] == 'assistant' %}
        {%- set fold_since, fold_tools, fold_opening, fold_past, fold_printed, fold_told,
            fold_before, fold_like, fold_cue, fold_kept = fold_at.state %}
        {%- set fold_last = fold_index == messages | length %}
        {%- set fold_new = messages[fold_since:fold_index] %}
        {%- set fold_seen = fold_opening + [fold_past] + fold_new if fold_past else fold_new %}
        {%- set fold_asks = not fold_last or add_generation_prompt %}
@OWNMODE@        {%- set fold_prompt = fold_original(fold_seen, fold_asks, fold_tools@MODE@) %}
        {%- set fold_generated = true %}

        {%- if not fold_last %}
            {#- The fields of the answer, and the answer with marks in their place. #}
            {%- set fold_message = messages[fold_index] %}
            {%- set fold_bare = fold_message %}
            {%- set fold_thought = '' %}
            {%- if 'reasoning_content' in fold_message or 'reasoning' in fold_message
                    or 'thinking' in fold_message %}
                {%- set fold_thought = fold_message['reasoning_content']
                    or fold_message['reasoning'] or fold_message['thinking'] or '' %}
                {%- set fold_bare = dict(fold_message | items
                    | rejectattr('0', 'in', ['reasoning_content', 'reasoning', 'thinking'])) %}
            {%- endif %}
            {%- set fold_words = fold_message['content'] or '' %}
            {%- set fold_parts = (fold_words is not string) if fold_words else fold_in_parts %}
            {%- if fold_words is not string %}
                {%- set fold_words = fold_words | join(attribute='text') %}
            {%- endif %}
            {%- set fold_calls = fold_message['tool_calls'] or []
                if 'tool_calls' in fold_message else [] %}
            {%- set fold_marked = fold_bare %}
            {%- if fold_words and fold_calls and not fold_words | trim %}
                {%- set fold_words = '' %}
                {%- set fold_marked = dict(fold_bare, content=fold_message['content'][:0]) %}
            {%- elif fold_words %}
                {%- set fold_marked = dict(fold_bare, content=
                    [{'type': 'text', 'text': fold_content}] if fold_parts else fold_content) %}
            {%- endif %}
@SILENTLY@            {%- if fold_thought %}
                {%- set fold_marked = dict(fold_marked, reasoning_content=fold_reasoning,
                    reasoning=fold_reasoning, thinking=fold_reasoning) %}
            {%- endif %}
@LEFTOVERS@@THINKING@            {%- set fold_generated = @GENERATED@ %}
@DROPPING@@MOVING@        {%- endif %}

        {#- What is new since the last answer. #}
        {%- set fold_goes_on = fold_told and not fold_generated
            and not fold_new | selectattr('role', 'equalto', 'user') | list %}
        {%- if fold_goes_on %}
            {%- set fold_told = fold_told + fold_new + [fold_bare] %}
        {%- else %}
            {%- set fold_asks = fold_asks and fold_generated %}
            {%- set fold_text = fold_prompt %}
            {%- set fold_known = '' %}
            {%- if fold_told %}
                {%- set fold_text = fold_original(
                    fold_before + fold_told + fold_new, fold_asks, fold_tools@MODE@) %}
                {%- set fold_known = fold_original(fold_before, false, fold_tools@MODE@) %}
            {%- else %}
                {%- if not fold_generated %}
                    {%- set fold_text = fold_original(fold_seen, false, fold_tools@MODE@) %}
                {%- endif %}
                {%- if fold_past %}
                    {%- if fold_printed is none %}
                        {%- set fold_printed = fold_original(
                            fold_opening + [fold_past], false, fold_tools@MODE@) %}
                        {%- if not ('tool_calls' in fold_past
                                and fold_past['tool_calls'])@UNSWITCHED@ %}
                            {%- set fold_kept = (fold_past, fold_printed) %}
                        {%- endif %}
                    {%- endif %}
                    {%- set fold_known = fold_printed %}
                {%- endif %}
            {%- endif %}
            {%- if fold_text[:fold_known | length] == fold_known %}
                {{- fold_text[fold_known | length:] }}
            {%- else %}
                {{- fold_beyond(fold_text, fold_known) }}
            {%- endif %}
        {%- endif %}

        {%- if not fold_last %}
            {%- if fold_generated %}
                {#- The answer. One of the same fields as the last, after a prompt that ends alike,
                    is printed alike: the original need not be asked again. #}
                {%- set fold_newest = fold_new[-1]['content'] or '' %}
                {%- if fold_newest is not string %}
                    {%- set fold_newest = fold_newest | join(attribute='text') %}
                {%- endif %}
                {%- set fold_shown = [fold_marked, fold_roles[fold_since:fold_index],
                    fold_prompt.rpartition(fold_newest | trim or fold_content)[2],
                    fold_words == ''@MODE@] if not fold_calls %}
                {%- if fold_shown and fold_shown == fold_like[0] %}
                    {%- set fold_said = fold_like[1] %}
                {%- else %}
@ALONE@                    {%- set fold_view = fold_original(
                        fold_seen + [fold_marked], false, fold_tools@MODE@) %}
@VIEW@                    {%- if fold_shown %}
                        {%- set fold_like = (fold_shown, fold_said) %}
                    {%- endif %}
                {%- endif %}
@EARLY@@INLINED@@TRIMMING@@LASTS@                {%- if fold_thought %}
                    {%- set fold_said = fold_said | replace(fold_reasoning, fold_thought, 1)
                        if fold_thought == fold_thought | trim
                        else fold_filled(fold_said, fold_reasoning, fold_thought, @LED@, true) %}
                {%- endif %}
                {{- @FILLED@ }}
                {%- set fold_told = [] %}
            {%- elif not fold_goes_on %}
                {%- set fold_before = fold_seen %}
                {%- set fold_told = [fold_bare] %}
            {%- endif %}
@REMEMBERING@            {%- set fold_given = dict(fold_bare, content=
                [{'type': 'text', 'text': fold_prior}] if fold_parts else fold_prior) %}
@BEHIND@            {%- if fold_given != fold_past@SWITCHED@ %}
                {%- set fold_printed = fold_kept[1] if fold_kept[0] == fold_given else none %}
            {%- endif %}
            {%- set fold_at.state = (fold_index + 1, @TOOLS@, fold_opening, fold_given,
                fold_printed, fold_told, fold_before, fold_like, fold_cue, fold_kept) %}
        {%- endif %}
    {%- endfor %}
{%- endif %}
"""
