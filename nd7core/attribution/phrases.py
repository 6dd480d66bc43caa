"""The phrases by which an agent's sentence reports a refusal, or takes the report back.

English in full; of other languages the stems that only a refusal has.  What a sentence means is decided in
`nd7core.attribution.words`.
"""

from __future__ import annotations

import re

# The system refused, in so many words.
STRONG = re.compile(
    r"\bno[ _-]new[ _-]privileges?\b|\b(?:os error|Errno) (?:1|13|30)\b|\b(?:I|we)(?:['’]m| am|['’]re| are| was|"
    r" were) (?:\w+ )?(?:not|"
    r"never) (?:allowed|permitted|authori[sz]ed)\b|"
    r"\b(?:don.t|do not|doesn.t|does not) (?:seem|appear) to have (?:\w+ ){0,2}(?:permissions?|access|rights?)\b|"
    r"\b(?:seems?|appears?) to be (?:restricted|blocked|denied|forbidden)\b|\b(?:access|permission|operation|"
    r"read\w*|write|writ\w+|creat\w+|delet\w+|remov\w+|open\w*|sav\w+|copy\w*|mov\w+|renam\w+|connection|request|"
    r"command|call|attempt\w*)\b.{0,60}?\b(?:was|were|is|are|got|been|being|gets)?\s*(?:denied|refused|blocked|"
    r"rejected|prohibited|forbidden|not permitted|not allowed|disallowed)\b|\b(?:is|are) protected (?:in|by|from|"
    r"here|against)\b|\b(?:is|are|was|were) closed (?:off\b|(?:for|in|to) (?:this|the) se)|(?:\b(?:was|were|is|are|"
    r"got|been|being|gets|getting|still|came back|comes back)|\b(?:that|it)['’]s)\s+(?:\w+\s+){0,2}?(?:denied|"
    r"refused|blocked|rejected|prohibited|forbidden|not permitted|not allowed|off[- ]limits|read-only|not writable|"
    r"not reachable|unreachable|not accessible|inaccessible)\b|\b(?:sandbox|polic(?:y|ies)|kernel|session|"
    r"environment|seatbelt|landlock|nd7|confinement|restrictions?|OS|operating system|"
    r"macOS)\b.{0,60}?\b(?:block\w*|den(?:y|ies|ied)|refus\w+|prevent\w*|forb(?:id|ids|ade|idden)|prohibit\w*|"
    r"disallow\w*|reject\w*|doesn.t (?:allow|permit|let)|does not (?:allow|permit|let)|won.t (?:allow|let|permit)|"
    r"would not (?:allow|let)|stop(?:s|ped)|restrict\w*|(?:not|\w+n.t) (?:allowed|permitted)|only (?:lets?|allows?|"
    r"permits?)|sa(?:id|ys) no|ke(?:ep|eps|pt) .{1,60} from|only grants?)\b|\b(?:block\w*|den(?:ied|ial)|refus\w+|"
    r"prevent\w*|stopped|restrict\w*|not (?:allowed|permitted)|outside|reject\w*|(?:not|isn.t|aren.t|"
    r"wasn.t) allowed)\b.{0,40}?\b(?:sandbox\w*|polic(?:y|ies)|the kernel|this session|seatbelt|landlock|nd7|"
    r"confinement)\b|\bpermission(?:s)? (?:denied|error|denial|problem|issue)|\bnot permitted\b|\bE(?:PERM|ACCES|"
    r"ROFS)\b|\bPermissionError\b|\bread-only file ?system\b|\bdenied by\b|\b(?:no|lack\w*|without|don.t have|"
    r"do not have|didn.t have|doesn.t have|insufficient)\s+(?:the\s+)?(?:necessary\s+)?(?:write |read |"
    r"network )?(?:permissions?|access|rights?)\b|\b(?:needs?|requires?)\b.{0,40}\b(?:rights|permissions?|"
    r"privileges)\b.{0,30}(?:not have|n.t have|lacks?|without)\b|(?:\bnot|n.t) (?:reachable|accessible|available|"
    r"writable|readable|allowed|permitted)\b.{0,30}\b(?:from|in|within|inside|under) (?:this|the|my) (?:session|"
    r"sandbox|environment)\b|\b(?:couldn.t|could not|can.t|cannot|unable to)\b.{0,80}?\b(?:because|since|due to|as|"
    r"owing to)\b.{0,80}?\b(?:permission|permitted|denied|sandbox\w*|polic\w+|restrict\w*|read-only|writable|"
    r"refused|blocked|allowed|only (?:has|have|lets?|allows?|permits?|grants?|gives?)|outside (?:of )?(?:the|what|"
    r"my|its|any))\b|\b(?:session|sandbox|environment)\b.{0,40}\b(?:mount\w*|is|makes?|"
    r"keeps?) .{0,20}\bread-?only\b|\bpermissions?\b.{0,40}\b(?:is|are|was|were) (?:missing|lacking|withheld|"
    r"not (?:given|granted|there))\b|\b(?:permission|permitted|denied|sandbox\w*|polic\w+|restrict\w*|read-only|"
    r"blocked)\b.{0,80}?\b(?:couldn.t|could not|can.t|cannot|unable to|prevent\w*|failed|fails)\b|\b(?:needs?|"
    r"requires?)\b.{0,60}\b(?:write |read |network )?access\b.{0,60}(?:\boutside|\bnot have|n.t have|\blacks?|"
    r"\bbeyond)\b",
    re.IGNORECASE,
)
# Another language's words for the same; matched as parts of words, since endings vary.
FOREIGN = re.compile(
    r"kein(?:e|en|erlei)? \w*(?:zugriff|zugang|recht|berechtigung|erlaubnis)|abgewiesen|blockier|lässt .{1,60}nicht zu|"
    r"verbiet|n.(?:ai|a|avons) (?:pas|aucun\w*) (?:\w+ ){0,2}(?:accès|droit|permission|autorisation)|bloqu[ea]|"
    r"(?:no|não) (?:tengo|hay|tenho|temos|tenemos|há) (?:\w+ ){0,2}(?:acceso|acesso|permis|derecho|direito)|"
    r"non (?:ho|abbiamo) (?:\w+ ){0,2}(?:access|permess|diritt|autorizz)|impedi[sr]c?|\bblocca|\bnega l|"
    r"geen (?:\w+ )?\w*(?:toegang|recht|toestemming)|blokke|weiger|nie mam (?:\w+ )?(?:uprawn|dost|praw)|blokuj|"
    r"нет (?:\w+ )?(?:доступ|прав|разреш)|нема(?:є|ю)? (?:\w+ )?(?:доступ|прав|дозвол)|не маю (?:доступ|прав|дозвол)|"
    r"блокиру|блоку[єю]|izni(?:m|miz)? yok|yetki\w* yok|erişim\w* yok|nemám (?:\w+ )?(?:opráv|příst|práv|přístup)|"
    r"nemam |chýba|chybí|không có quyền|tidak (?:punya|memiliki|ada) (?:izin|akses|hak)|ليس لدي|ممنوع|لا أملك|"
    r"har (?:inte|ikke) (?:\w+ )?(?:behörig|rätt|tillgång|åtkomst|adgang|tilgang|rettig|tilladelse|tillatelse)|"
    r"ei ole (?:\w+ )?oikeu|nincs (?:\w+ )?(?:jog|engedély|hozzáfér)|nu am (?:\w+ )?(?:drept|permis|acces)|"
    r"δεν έχω|אין לי|ไม่มีสิทธิ์|"
    r"verweiger|unterb[ui]nd|verwehrt|versperrt|gehindert|prohib|impid|proib|pas les? droits?|pas la permission|"
    r"pas d.accès|geblockt|nicht erlaubt|nicht zulässig|unzulässig|nicht gestattet|blockiert|keine (?:schreib|"
    r"lese)?(?:berechtigung|rechte)|schreibgeschützt|nur lesbar|untersagt|abgelehnt|gesperrt|refusé|interdit|bloqué|"
    r"pas autorisé|non autorisé|empêch|verhinder|s[oó]lo lectura|somente leitura|sola lettura|alleen[- ]lezen|"
    r"tylko do odczytu|только для чтения|只读|唯讀|読み取り専用|읽기 전용|permission refus|lecture seule|"
    r"accès refus|denegad|bloquead|bloque[óa]\b|no (?:se )?(?:me |nos )?permit|no permitid|no está permitid|"
    r"sin permiso|permiso|rechazad|negad[oa]|não (?:é )?permitid|pas permis|non è (?:permess|consentit)|"
    r"sem permissão|recusad|impedi[du]|negat[oa]|bloccat|non consentit|non permess|rifiutat|vietat|geweigerd|"
    r"geblokkeerd|niet toegestaan|geen toegang|geen rechten|odmow|odmów|zablokow|zabronion|brak (?:dostępu|"
    r"uprawnień)|niedozwolon|отказ|запре[щт]|заблокир|не разреш|нет прав|не позвол|недоступ|відмовлен|заборон|"
    r"заблок|nekad|nekas|blockera|inte tillåt|nægtet|blokeret|ikke tillad|avvist|ikke tillatt|nektet|evätty|estet|"
    r"kielletty|zamítnut|zablokov|nepovolen|odepřen|engellen|reddedil|izin ver|izin yok|拒绝|拒絕|被阻止|阻止了|"
    r"不允许|不允許|禁止|沙箱|沙盒|无权|無權|没有权限|沒有權限|权限不足|權限不足|受限|サンドボックス|拒否|許可され|"
    r"権限がな|ブロックされ|制限により|禁止され|거부|차단|권한이 없|샌드박스|허용되지|금지|từ chối|bị chặn|"
    r"không được phép|ditolak|diblokir|tidak diizinkan|รับการปฏิเสธ|ถูกบล็อก|मना कर|अनुमति नहीं|رفض|محظور|נדח|נחסם",
    re.IGNORECASE,
)
# An inability without a word of why: enough where what it names is outside.
FOREIGN_UNABLE = re.compile(
    r"scheiter|fehlgeschlagen|fehlende[nr]? \w*recht|a échoué|falló|fallid|fallit|mislukt|niepowod|не удал|失敗|"
    r"失败|실패|impossible d|no (?:me|nos) dej|ne (?:me|nous) laisse pas|lässt (?:mich|das) nicht|non mi lascia|"
    r"não me deixa|nie pozwala|не (?:даёт|дает)|不让|不讓|n.ai pas pu|(?:est|était) impossible d|ne (?:peux|"
    r"pouvais) pas|\bkonnten? \b.{0,80}\bnicht\b|\bkann\b.{0,80}\bnicht\b|no (?:he|hemos) podido|no pud[eio]|"
    r"no puedo|não (?:consegui|pude|posso)|non (?:ho potuto|posso|riesco)|\bkon\b.{0,80}\bniet\b|nie (?:mogę|"
    r"mogłem|udało)|не удалось|не получ|не могу|не смог|无法|無法|できません|できな|られません|[めれえせけ]ず|수 없|"
    r"못했|"
    r"막아|막혀|l(?:ieß|ässt|assen) sich .{0,80}\bnicht\b|l(?:ieß|ässt|assen) sich nicht|\bdarf\b.{0,120}\bnicht\b|"
    r"\bmag\b.{0,80}\bniet\b|\b(?:kan|kunde|får|må|kunne) (?:jag |"
    r"jeg )?(?:inte|ikke)\b|nemoh|nemůž|nesmím|nelze|nepodař|не можу|не зміг|не вдал|\ben (?:voi|pysty)|nem (?:tud|"
    r"siker|lehet)|\bnu (?:pot|am putut)\b|δεν (?:μπορ|μπόρ)|لا يمكن|لم أتمكن|تعذر|לא (?:ניתן|הצלחתי)|không thể|"
    r"tidak (?:bisa|dapat)|ไม่สามารถ|(?:a|e)mıyorum|(?:a|e)miyorum|(?:a|e)mad[ıi]|(?:a|e)med[ıi]",
    re.IGNORECASE,
)
FOREIGN_OTHERWISE = re.compile(
    r"existe|existiert|gefunden|trouv|encontr|esiste|trovat|bestaat|gevonden|istnieje|znale|существу|найд|найти|"
    r"不存在|找不到|存在し|見つか|없습니다|없어|syntax|compil|超时|タイムアウト|finns|hittad|findes|fundet|finnes|"
    r"neexist|nenaš|bulunam|mevcut|знайд|існу|löyd|talál|létez|găsit|există|tìm thấy|tồn tại|ditemukan|"
    r"ohne (?:deine|Ihre)|sans votre|sin tu |sem a sua|senza il tuo|без вашего",
    re.IGNORECASE,
)
FOREIGN_FALSE = re.compile(
    r"\bwenn\b|\bfalls\b|\bsobald\b|\bsi (?!no se pudo)|\bse (?:o|a) \w+ (?:bloque|neg)|\bjeśli\b|\bесли\b|\bkdyby|"
    r"\bals de\b|如果|若|假如|もし|場合|만약|behoben|gelöst|resuelto|arreglad|correg|corrig|solucionad|corrigé|"
    r"résolu|risolt|opgelost|naprawion|исправ|已修复|已解决|已解決|修正しました|解決しました|수정했|해결",
    re.IGNORECASE,
)
# What takes a report back.
CONDITION = re.compile(
    r"\b(?:if|unless|whenever|in case|should (?:the|this|it|you|that|any)|would (?:be |get |have been )?(?:block|"
    r"den|refus|reject|prevent|need)\w*|might|may (?:be|get|need|fail)|could be|can be (?:block|den|refus)\w*|"
    r"(?:can|could|may) (?:block|deny|refuse|reject|prevent|restrict)\b|suppose|in general|typically|normally|"
    r"usually|often|once you|(?<!crashed )(?<!failed )(?<!stopped )(?<!aborted )(?<!died )when (?:the|a|an|you|"
    r"users?|it)|by default|so that|to avoid|avoids?|in order to|"
    r"tells? you|lets you|let me know|make sure|ensure|as long as|e\.g\.|for example|otherwise|or else|"
    r"without (?:the|an?|this|that|its)(?= ))\b",
    re.IGNORECASE,
)
RESOLVED = re.compile(
    r"\b(?:but|and|which|now|since|then|it)\b.{0,60}?\b(?:now works?|works? now|now passes|passes now|it works|"
    r"they work|went through|is gone|are gone|no longer|succeeded|succeeds|is fixed|is (?:now )?(?:allowed|"
    r"writable|in place|resolved)|after (?:your|the) (?:grant|approval|change))\b|\bafter (?:your|the) grant\b|"
    r"\bwith (?:your|the|that) grant\b|\bafter you (?:granted|allowed|approved|added|widened)\b|\bno longer\b|"
    r"\bnow (?:works|passes|succeeds|allowed|writable|permitted)\b|\b(?:I|I've|I have|we)(?:'ve|"
    r"’ve)? (?:also )?(?:fixed|resolved|corrected|repaired|solved|addressed|removed|eliminated|worked out)\b|"
    r"\b(?:wasn.t|was not|isn.t|is not|not) (?:marked )?executable\b|\b(?:everything|all of it) (?:works|worked|"
    r"succeeded|passes|passed|went through)\b.{0,20}\bincluding\b|\b(?:fixed|resolved|solved|cured) (?:the|it|this|"
    r"them)\b|\b(?:pass(?:es)?|works?|succeeds?|builds?) now\b|\b(?:that|this|it) (?:is|was|"
    r"has been) (?:now )?(?:fixed|resolved|solved)\b|\bgrant(?:ed)? (?:it|that|access) and\b",
    re.IGNORECASE,
)
NEGATED = re.compile(
    r"\b(?:does(?:n.t| not) matter|no matter|never mind|irrelevant)\b|\b(?:can.t|cannot|could not|"
    r"couldn.t) reproduce\b|\b(?:not|n.t|never) (?:run into|hit|see|seen|encounter|meet|"
    r"met)\b.{0,30}\b(?:permission|denial|sandbox|restriction)|\b(?:not|never) been (?:denied|blocked|refused|"
    r"restricted)\b|\b(?:no|not any|without(?: any)?|zero|never (?:saw|hit|met|got))\s+(?:\w+\s+){0,2}?(?:denials?|"
    r"refusals?|permission (?:errors?|problems?|issues?)|blocks?|blocked|errors?|restrictions?)\b|\bnothing (?:was|"
    r"is|has been|got) (?:\w+ )?(?:blocked|denied|refused|rejected)\b|\b(?:wasn.t|weren.t|isn.t|not) (?:blocked|"
    r"denied|refused|rejected|restricted)\b|\bnone (?:was|were) (?:blocked|denied|refused)\b",
    re.IGNORECASE,
)
PERSON = re.compile(
    r"\byou (?:have |had |'ve )?(?:said|told me|asked(?: me)?|want(?:ed)?)\b.{0,40}\bnot (?:to\b|be )|"
    r"\byou (?:have |had |'ve )?(?:denied|refused|rejected|declined|blocked|disallowed|cancel\w+|interrupted|"
    r"said no|did(?:n.t| not) (?:approve|allow|want|grant|permit|confirm))\b|\b(?:denied|refused|rejected|declined|"
    r"cancelled|interrupted|blocked) by (?:you|the user)\b|\bthe user (?:denied|refused|rejected|declined)|"
    r"\byour (?:denial|refusal|rejection|permission (?:rules?|settings)|settings|deny rules?|hooks?)\b|"
    r"\brequires? (?:your )?(?:approval|confirmation|permission from you)\b|\bneeds? your (?:approval|confirmation|"
    r"permission)\b|\b(?:claude code|claude)(?:.s)? (?:own )?(?:permission|rules?|settings)|\b(?:permission|deny|"
    r"ask) (?:rules?|mode|prompt|dialog)\b|\bdon.t ask mode\b|\bplan mode\b|\b(?:pre|post)tooluse\b|"
    r"\bhooks?\b(?: (?:in|from|of|under|at) \S+)? (?:now |always )?(?:block(?:s|ed)|den(?:ies|ied)|reject(?:s|ed)|"
    r"refuse[sd]|forbids?|forbade|prevent(?:s|ed))\b|\byour (?:\S+['’]s? (?!sandbox|nd7|session)|"
    r"repo\w*['’]?s? )(?:polic(?:y|ies)|conventions?|guidelines?)\b|\byour (?:\w+ )?(?:hook|deny|team) rules?\b",
    re.IGNORECASE,
)
MYSELF = re.compile(
    r"\bI (?:have |had |'ve )?(?:refuse|refused|decline|declined|won.t|will not|would rather not|chose not|"
    r"decided not|did(?:n.t| not) want|deliberately|blocked|denied|rejected|am not going)\b(?! (?:access|"
    r"permission))",
    re.IGNORECASE,
)
REMOTE = re.compile(
    r"\b(?:by|from|on|of) (?:git(?:hub|lab)|bitbucket|the (?:remote|server|registry|api|upstream|host|proxy|"
    r"database|cluster|bucket|provider|service|app|browser|linter|compiler|type checker|reviewer)|aws|s3|npm|pypi|"
    r"azure|gcp|google|slack|jira|cloudflare|kubernetes|postgres\w*|mysql|redis)\b|\b(?:git(?:hub|lab)|bitbucket|"
    r"the (?:remote|server|registry|api|upstream|proxy|database|cluster|bucket|provider|reviewer|website|site)|aws|"
    r"s3|npm|pypi)(?: server| registry| api)? (?:\w+ )?(?:rejected|refused|denied|blocked|return(?:s|ed)|"
    r"respond(?:s|ed)|answer(?:s|ed)|says|said|requires)\b|\b(?:401|403|407|429)\b|\b(?:invalid|expired|missing|"
    r"without an?|no)(?: \w+)? tokens?\b|\btokens? (?:is|are|was|were|has|have|had|lacks?|expired|needs?|does|do|"
    r"can)\b|\bon (?:the|your) (?:target|production|staging|remote|customer.s|user.s) \w+|\bcredentials? (?:are|is|"
    r"were|was) (?:invalid|expired|wrong)|\bscope\b|\bbranch protection|\bprotected branch|\bpublickey|"
    r"\bpublic key|\bauthenticat\w+|\bunauthori[sz]ed|\blog(?:ged)? ?in\b|\bIAM\b|\bconnection refused|"
    r"\bconnection was refused|\brefused (?:the )?connections?|\bECONNREFUSED|\bnothing (?:is )?listening|"
    r"\brate limit|\bfirewall\b|\bCORS\b|\bAccessDenied\b|\bfor (?:the )?(?:[\w-]+ )?(?:table|relation|role|"
    r"user)\b|(?-i:\bCI\b)|\b(?:the|a) runner\b",
    re.IGNORECASE,
)
PROGRAM = re.compile(
    r"\b(?:tests?|specs?|test suite|fixture|mocks?|functions?|methods?|class|endpoints?|handlers?|middleware|"
    r"validators?|parsers?|routes?|components?|helpers?|the code|error handling|error message|exception handling|"
    r"docs?|documentation|readme|changelog|comments?|scripts?|programs?|application|commands? line|other users|"
    r"issue|ticket|bug|stack trace|logs?|log file|log line|type|types|regex|schema|snippet|example|script now|"
    r"feature|users? (?:get|see|who|without|with|can|cannot|are))\b",
    re.IGNORECASE,
)
PROGRAM_ACTS = re.compile(
    r"\b(?:now|correctly|properly|should|will|would|must|always) (?:return|raise|throw|show|print|log|reject|"
    r"refuse|deny|block|handle|report|check|get|be)\w*\b|\b(?:handles?|handling|returns?|raises?|throws?|"
    r"catch(?:es)?|checks? for|asserts?|covers?|simulates?|expects?|mentions?|says?|describes?|explains?|shows?|"
    r"contains?|reads?:|reported|documents?|documented|(?<!the )logs|rejects?|renders?|prints?|displays?)\b|"
    r"\b(?:added|add|implemented|wrote|updated|rewrote|refactored|changed|renamed|extended|improved|documented)\b",
    re.IGNORECASE,
)
# This session, as other languages call it.
FOREIGN_HERE = re.compile(
    r"sandbox|bac à sable|sandlåd|песочниц|沙箱|沙盒|サンドボックス|샌드박스|\b(?:in|von) dieser sitzung|"
    r"cette session|esta sesi|esta sess|questa sessione|deze sessie|tej sesji|этой сессии|会话|セッション|세션|"
    r"\bnd7\b|\bich\b|\bje\b|\bj['’]|\bm['’]|\bme\b|\bmi\b|\bhe\b|pude\b|podido|consegui|\bho\b|\bik\b|\bmi\b|я\b|"
    r"мне|\bmnie\b|мені|我|私|제가",
    re.IGNORECASE,
)
FIRST_PERSON = re.compile(
    r"\b(?:I|we)\b.{0,30}?\b(?:couldn.t|could not|can.t|cannot|was(?:n.t| not) able|am not able|was unable|"
    r"am unable|don.t have|do not have|have no|tried|attempted|got|hit|ran into|stopped|failed|skipped|left|used|"
    r"set|put|kept|went)\b|\bmy (?:\w+ )?(?:attempt|write|read|command|call|edit)|\b(?:for|to|lets?|gives?|gave) me\b",
    re.IGNORECASE,
)
QUESTION = re.compile(r"\?\s*[\"')*_]*$")
ADVICE = re.compile(
    r"^\W*(?:run|use|try|check|grant|please(?! note)|to (?:fix|solve|allow|grant|reproduce)|you (?:can|could|may|"
    r"should|"
    r"need|must|will|might)|note that (?:if|when)|next:|next step)\b",
    re.IGNORECASE,
)
QUOTE_LINE = re.compile(r"^\s*(?:>|\||```|\$ |#!)")

NET = re.compile(
    r"\b(?:port|tcp|udp|socket|network|connect\w*|reach\w*|ssh|http|dns|host|listen\w*|bind\w*|localhost|fetch\w*|"
    r"download\w*|upload\w*|push(?:ing)?|pull|internet|outbound|outgoing|traffic|registry)\b|端口|網路|网络|"
    r"ネットワーク|ポート|네트워크|포트|сет|порт|netzwerk|réseau|puerto|\bred\b",
    re.IGNORECASE,
)
SOCKET = re.compile(
    r"\b(?P<name>(?:(?:docker|podman|colima|rancher|orbstack|lima|ssh[- ]agent|gpg[- ]agent|unix|x11|wayland|dbus|"
    r"containerd)/?){1,3}(?: (?:daemon|engine|API))? socket)\b|"
    r"\b(?:connect\w*|talk\w*) to (?:the )?(?:[\w-]+ )?(?:bus|agent)\b|"
    r"\.sock(?:et)?\b|/S\.[\w.-]+|\b(?:ssh|gpg)-agent['’]s socket\b|"
    r"\bsockets? [`'\"(]*(?=[/~])",
    re.IGNORECASE,
)
EXECUTING = re.compile(
    r"\b(?:execut\w*|run(?:ning)?|launch\w*|start(?:ing)?|spawn\w*|invok\w*)\b|執行|执行|実行|실행|выполн|запус|"
    r"ausführ|exécut|ejecut",
    re.IGNORECASE,
)
READING = re.compile(
    r"\b(?:read(?:ing|able)?|open(?:ing)?|list(?:ing)?|load(?:ing)?|view(?:ing)?|see|inspect\w*|access(?:ing)?|cat|"
    r"look at|parse)\b|读|讀|読|읽|чита|прочит|lesen|gelesen|lire|leer|ler|leggere|lezen|odczyt|číst|okuma|läsa",
    re.IGNORECASE,
)
WRITING = re.compile(
    r"\b(?:writ\w+|wrote|creat\w+|sav\w+|modif\w+|updat(?:e|ing)|delet\w+|remov\w+|install\w*|edit\w*|mkdir|"
    r"append\w*|mov(?:e|ing)|cop(?:y|ies|ied|ying)|renam\w+|chmod|chown|symlink\w*|link(?:ing)?|cache|lock\w*|"
    r"commit\w*|put)\b|写|寫|書|쓰기|쓸|저장|"
    r"創建|创建|запис|пис|созда|schreib|anleg|écri|créer|escrib|crear|escrev|criar|scriv|creare|schrijv|zapis|"
    r"tworz|zápis|vytvo|yaz|skriv",
    re.IGNORECASE,
)
PORT_HOST = re.compile(
    r"\bport\s+(?P<port1>\d{1,5})\s+(?:to|on|at|of)\s+[`'\"]?(?P<host1>[\w.-]+\.\w+|localhost|\d+(?:\.\d+){3})|"
    r"[`'\"]?(?P<host2>[A-Za-z0-9][\w-]*(?:\.[\w-]+)+|localhost)[`'\"]?,?\s+(?:on |at |"
    r"\()?port\s+(?P<port2>\d{1,5})|(?<![\w/.])(?P<host3>\d{1,3}(?:\.\d{1,3}){3}|localhost|"
    r"[A-Za-z][\w-]*(?:\.[\w-]+)+|\[[0-9a-f:]+\]):(?P<port3>\d{2,5})(?!\d)"
)
PORT = re.compile(
    r"\bport\s+(\d{1,5})\b|\b(?:tcp|udp):(\d{1,5})\b|(?:端口|ポート|포트)\s?(\d{1,5})|(?<!\w):(\d{4,5})\b",
    re.IGNORECASE,
)
HOSTNAME = re.compile(
    r"(?<![\w/.@~-])((?:[A-Za-z0-9-]+\.)+(?:com|org|net|io|dev|internal|local|example|invalid|test|sh|ai|app|co|"
    r"cloud|edu|de|fr|uk))\b(?![/\w])"
)
PATH = re.compile(
    r"(?<![\w/.:~$-])((?:~|\.{1,2})?/[^\s`'\"<>()\[\]{},;:|*。，、：；（）」』「『！？（“”‘’«»]+|~/?(?=[\s`'\"),.;]))"
)
RELATIVE = re.compile(
    r"`([\w@%+=.~-]*(?:[./][\w@%+=.~-]+)+/?)`|(?<![\w/.@-])(\.[A-Za-z][\w-]*(?:/[\w.@-]+)*|[\w@-]+(?:/[\w.@-]+)+)(?"
    r"=[\s`'\"),.;:]|$)"
)

# What takes a report back whatever else is in the sentence.
WORK_DONE = re.compile(
    r"\b(?:page|docs?|documentation|readme|section|guide|article|changelog|report|issue|description|"
    r"spec(?:ification)?|ticket|comments?|docstring|help text|man page|wiki|release notes|pull request|PR|"
    r"thread)\b.{0,40}?\b(?:explains?|says?|describes?|mentions?|notes?|states?|documents?)\b|\bold (?:code|"
    r"version|script|build|behaviou?r)\b|^\W*I(?:.ve| have)? (?:also |now )?(?:added|add|implemented|wrote|rewrote|"
    r"refactored|documented|described|handled|covered|extended|improved)\b(?!.{0,200}\b(?:could not|couldn.t|"
    r"was (?:denied|refused|blocked)))",
    re.IGNORECASE,
)
# A text that the person gave, and a thing that was made: what they tell of is not what happened here.
GIVEN = re.compile(
    r"\byou (?:have |just |'ve )?(?:pasted|posted|shared|sent|linked|quoted|showed|mentioned|reported|described|"
    r"attached)\b|\bin your (?:\w+ )?(?:logs?|trace|output|paste|journal|report|screenshot)\b|"
    r"\biframe\b|\bwhich is what\b|\bas it should\b|\b(?:our|my|your) (?:\w+ ){0,3}(?:wrapper|module|class|function|"
    r"middleware|implementation|plugin|"
    r"service|app|library|daemon)\b|\b(?:by design|on purpose|as (?:intended|requested|designed|expected|required)|"
    r"as you (?:asked|requested|wanted|wished|said)|per your|deliberately|intentionally)\b|"
    r"(?<!n.t )(?<!not )\b(?:look(?:ed)? at|explain\w*|describ\w+|understand|know|shows?|decid\w+|determin\w+|"
    r"check(?:ed|s)?) (?:at |for )?(?:how|which|whether|when|what happens)\b|\bthe (?:sentence|string|text|word|"
    r"phrase|label|title|heading|constant|translation) [\"'“«`]|^\W*(?:this|it|the (?:\w+ )?(?:PR|commit|patch|"
    r"change|flag|option|switch|rule))(?: (?:PR|commit|patch|change|flag|option))? (?:now )?(?:adds|introduces|"
    r"implements|makes|ensures|enables|lets|den(?:y|ies)|blocks|restricts|refuses|forbids)\b",
    re.IGNORECASE,
)
# Said of any, or of who and what in general: how something works, and nothing that happened.
GENERIC = re.compile(
    r"\b(?:an?|each|every|any|no|such an?) (?:\w+ )?(?:session|program|command|agent|process|child|sandbox|"
    r"directory|file|path)s?\b|\bsessions\b|\b(?:who|what|which|how many|where|whether) (?:\w+ ){0,4}?(?:refus|den|"
    r"block)",
    re.IGNORECASE,
)
# Another that refuses or is refused: a service, a program that judges code, another access control of the system.
ANOTHER = re.compile(
    r"\bthe (?:unit|service|daemon|container|pod|web ?server|plugin|extension|browser|page|kiosk|guest|"
    r"VM)\b.{0,20}\b(?:can.t|cannot|could not|couldn.t|may not|won.t be able|is denied|is(?:n.t| not) allowed|"
    r"gets?|got|hits?|sees?|fails? with|dies? with|runs? into)\b|\b(?:inside|within|in) (?:the|a|each|"
    r"your) (?:container|pod|guest|VM|chroot|jail)\b|\bon (?:Windows|Android|iOS|Kubernetes|OpenShift|NTFS|Vercel|"
    r"Heroku|Netlify|Lambda|Cloud Run)\b|\bthe server.s\b|\bDockerfile['’]s\b|\bSELinux\b|\bAppArmor\b|\b(?:mypy|"
    r"pyright|eslint|tsc|"
    r"rustc|clippy|ruff|pylint|typescript|(?:the )?(?:compiler|linter|type checker|borrow checker|validator|"
    r"schema))\b.{0,20}\b(?:complains?|says|rejects|refuses|forbids|reports|doesn.t)\b",
    re.IGNORECASE,
)

# What was refused before this session, or to another agent.
PAST = re.compile(
    r"\b(?:yesterday|last (?:week|month|year|time|night|\w+day)|previously|formerly|back then|in the past|earlier|"
    r"the (?:previous|last|old) (?:agent|session|run|version|attempt)|used to)\b",
    re.IGNORECASE,
)
# The same of what was written and for whom, in other languages.
FOREIGN_THEIRS = re.compile(
    r"\b(?:usuari[oa]s?|utilisateurs?|utilizadores|benutzer|nutzer|gäste|invités|visit\w+eurs|invitad[oa]s|utenti|"
    r"gebruikers|użytkowni\w+|пользовател\w+|användare)\b|用户|用戶|访客|ユーザー|管理者|di produzione|"
    r"de producción|de production|produktions|生产环境|本番|사용자|관리자|"
    r"pare-feu|cortafuegos|firewall|брандмауэр|防火墙|防火牆|ファイアウォール|방화벽|hébergeur",
    re.IGNORECASE,
)
FOREIGN_WORK = re.compile(
    r"hinzugefügt|implementiert|eingebaut|\bajouté|implémenté|\bañad[ií]|\bagregu|implement(?:é|ei|ado|ato)\b|"
    r"adicion(?:ei|ado)|aggiunt|toegevoegd|\bdodał|\bдобавил|реализова|添加了?|新增|增加了|实现了|追加しま|"
    r"変更しま|実装しま|추가했|변경했|구현했|lagt till|\bprüft\b|stellt sicher|s'assure|\bcobre\b|\bcubre\b|"
    r"\bcouvre\b|\bdeckt\b|проверяет|验证|renvoie|devuelve|\bretorna\b|restituisce|zurückgibt|возвращает|返回|"
    r"返します|반환|\bverifica\b|\bvérifie\b",
    re.IGNORECASE,
)
# The person who said no, as other languages address them.
FOREIGN_PERSON = re.compile(
    r"\b(?:hast du|du hast|haben Sie|Sie haben|hast)\b.{0,80}?(?:abgelehnt|verweigert|abgebrochen|untersagt|"
    r"verboten|abgewiesen)|\b(?:vous avez|tu as|avez-vous) .{0,20}?(?:refus|rejet|interdi|annul|bloqu)|\b(?:has|"
    r"habéis|usted ha|ustedes han) (?:\w+ )?(?:rechaz|deneg|negad|cancel|bloque|prohib)|\b(?:você|vocês|"
    r"tu) .{0,12}?(?:recus|neg|rejeit|bloque|cancel|proib)|\b(?:hai|avete|ha Lei) (?:\w+ )?(?:rifiut|negat|blocc|"
    r"annull|vietat)|\b(?:je|jij|u) (?:hebt|heb|had|heeft)\b.{0,60}?(?:geweigerd|afgewezen|geblokkeerd|verboden|"
    r"geannuleerd)|(?:odrzuci|odmówi|zablokowa|zabroni|anulowa)(?:łeś|łaś|liście)|\b(?:вы|ты)\b.{0,20}?(?:отклон|"
    r"запрет|отказ|заблок|отмен)|[你您](?:已经|已|刚才)?(?:拒绝|拒絕|取消|禁止|不允许|否决)|用户(?:已)?(?:拒绝|"
    r"取消)|(?:あなた|ユーザー).{0,12}?(?:拒否|却下|禁止|ブロック)|\(?あなたの|(?:사용자|당신|귀하).{0,20}?(?:거부|"
    r"거절|차단)|\b(?:vom|von der|par l['’]|por el|por la|pelo|dall['’]|door de) ?(?:nutzer|benutzer|utilisateur|"
    r"usuario|usuária|usuário|utente|gebruiker)|\b(?:deine|ihre|tus|sus|vos|tes|suas|tue|vostre)[rn]? \w*(?:regel|"
    r"règl|regl|regol|einstellung|hook|ajuste|configur|paramètr)",
    re.IGNORECASE,
)
# Behind one of these a sentence starts anew: what was done before it takes nothing back.
TURN = re.compile(
    r"\b(?:but|however|except|though|although|unfortunately|whereas)\b|\baber\b|\bmais\b|\bpero\b|\bma\b|\bmas\b|"
    r"\bmaar\b|\bно\b|但|ですが|지만",
    re.IGNORECASE,
)
THEIRS = re.compile(
    r"\b(?:users?|guests?|visitors?|customers?|clients?|roles?|admins?|callers?|members?|anonymous|"
    r"requests? from|requests? to(?=\s+(?:is|are|was|were)))\b.{0,50}?\b(?:denied|blocked|refused|rejected|"
    r"forbidden)\b",
    re.IGNORECASE,
)
PUSH = re.compile(
    r"\b(?:push|pull|merge|PR|pull request|commit|review|release|publish|deploy)\b.{0,20}?\b(?:was|is|got|"
    r"were) (?:rejected|refused|blocked|denied)\b",
    re.IGNORECASE,
)
OURS = re.compile(r"\b(?:sandbox\w*|nd7|this session|kernel|port|network|permitted|policy)\b", re.IGNORECASE)
# Words that name an error without saying that it came.
BARE = re.compile(
    r"^(?:PermissionError|E(?:PERM|ACCES|ROFS)|permissions? (?:denied|error|denial|problem|issue)|not permitted|"
    r"read-only file ?system)$|(?:read-only|not writable|unreachable|not reachable|inaccessible)$",
    re.IGNORECASE,
)
